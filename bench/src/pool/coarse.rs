//! `coarse`: two or four long pieces of work, from threads that are asleep. Who does not see them at once loses.
//!
//! A piece is so much processor time of the thread that runs it. Were it wall time, two threads on one core would do
//! two pieces in the time of one, and a pool that wakes its threads on the wrong core, or too many, would look fast.

use std::thread::sleep;
use std::time::Duration;

use super::peers::{self, all_workers, with_caller};
use super::windlass::{self, Crew};
use crate::suite::measure::{Panel, Role, Suite, Unit, thread_cpu_time};

const THREADS: usize = 2;

/// Before each run, for the pool to fall asleep.
const PAUSE: Duration = Duration::from_millis(20);

const PAIR: Duration = Duration::from_millis(10);
const UNEVEN: [Duration; 4] =
    [Duration::from_millis(12), Duration::from_millis(4), Duration::from_millis(6), Duration::from_millis(10)];

/// Uses so much processor time.
pub fn spin(time: Duration) {
    let end = thread_cpu_time() + time;
    while thread_cpu_time() < end {
        std::hint::spin_loop();
    }
}

/// What the pools are asked to do.
#[derive(Clone, Copy)]
enum Work {
    Pair,
    Uneven,
}

pub fn run(suite: &mut Suite) {
    suite.measure(panel("join(10 ms, 10 ms) from cold, 2 threads; ideal 10", Work::Pair));
    let title = "join(join(12 ms, 4 ms), join(6 ms, 10 ms)) from cold, 2 threads; ideal 16";
    suite.measure(panel(title, Work::Uneven));
}

fn panel(title: &str, work: Work) -> Panel {
    let mut panel = Panel::new("coarse", title, Unit::Milliseconds);
    let mut cold = |role, name: String, run: Box<dyn Fn()>| {
        panel.add(role, name, move |clock| {
            sleep(PAUSE);
            clock.time(&run);
        });
    };
    cold(Role::Floor, "one after the other".to_owned(), Box::new(move || in_sequence(work)));
    let (name, pool) = (with_caller("chili", THREADS), peers::chili(THREADS));
    cold(Role::Peer, name, Box::new(move || in_chili(&mut pool.scope(), work)));
    let (name, pool) = (all_workers("rayon join", THREADS), peers::rayon(THREADS));
    cold(Role::Peer, name, Box::new(move || pool.install(|| in_rayon(work))));
    let (name, pool) = (with_caller("forte", THREADS), peers::Forte::start(THREADS));
    cold(Role::Peer, name, Box::new(move || pool.0.with_worker(|worker| in_forte(worker, work))));
    // With a worker for each core the caller is one thread too many: that is what the pool's defaults give.
    for crew in Crew::of_both_kinds(THREADS).into_iter().chain([Crew::with_caller(THREADS + 1)]) {
        let name = crew.named("windlass join");
        cold(Role::Windlass, name, Box::new(move || crew.run(move |pool| in_windlass(pool, work))));
    }
    panel
}

fn in_sequence(work: Work) {
    match work {
        Work::Pair => [PAIR, PAIR].into_iter().for_each(spin),
        Work::Uneven => UNEVEN.into_iter().for_each(spin),
    }
}

fn in_chili(scope: &mut chili::Scope<'_>, work: Work) {
    let pair = |scope: &mut chili::Scope<'_>, a, b| scope.join(|_| spin(a), |_| spin(b));
    let [a, b, c, d] = UNEVEN;
    match work {
        Work::Pair => pair(scope, PAIR, PAIR),
        Work::Uneven => scope.join(|scope| pair(scope, a, b), |scope| pair(scope, c, d)).0,
    };
}

fn in_rayon(work: Work) {
    let pair = |a, b| rayon::join(|| spin(a), || spin(b));
    let [a, b, c, d] = UNEVEN;
    match work {
        Work::Pair => pair(PAIR, PAIR),
        Work::Uneven => rayon::join(|| pair(a, b), || pair(c, d)).0,
    };
}

fn in_forte(worker: &forte::Worker, work: Work) {
    let pair = |worker: &forte::Worker, a, b| worker.join(|_| spin(a), |_| spin(b));
    let [a, b, c, d] = UNEVEN;
    match work {
        Work::Pair => pair(worker, PAIR, PAIR),
        Work::Uneven => worker.join(|worker| pair(worker, a, b), |worker| pair(worker, c, d)).0,
    };
}

fn in_windlass(pool: &windlass::Pool, work: Work) {
    match work {
        Work::Pair => windlass::spin_pair(pool, PAIR, PAIR),
        Work::Uneven => windlass::spin_pairs(pool, UNEVEN),
    }
}
