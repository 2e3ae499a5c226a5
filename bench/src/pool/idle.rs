//! `idle`: what a pool costs while it has nothing to do, or one long task.
//!
//! Five seconds in all for each subject, in as many windows as there are turns. Each window has a pool of its own, for
//! other pools in the process would be counted too.
//!
//! How often the kernel took a thread up or put it away stands for the system calls: a thread that was never taken up
//! made none, and one that spins instead shows in the processor time.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::thread::gettid;

use super::peers::{RayonSpawn, TaskPool, Tokio, started};
use super::windlass::Windlass;
use crate::suite::measure::{Effort, Panel, Role, Suite, Unit, cpu_time, thread_cpu_time};

const THREADS: usize = 2;
const WINDOW: Duration = Duration::from_millis(700);
const QUICK_WINDOW: Duration = Duration::from_millis(200);

/// For the pool to fall asleep after its warm-up, and for the one before it to end.
const SETTLE: Duration = Duration::from_millis(50);
const WARM_UP: usize = 10_000;

/// How long a window is, and a task that spins for as long.
type Window = (Duration, fn());

/// What a pool used in a window.
type Used<P> = fn(&mut P, Window) -> Duration;

pub fn run(suite: &mut Suite) {
    let window: Window = match suite.effort {
        Effort::Full => (WINDOW, || spin_for(WINDOW)),
        Effort::Quick => (QUICK_WINDOW, || spin_for(QUICK_WINDOW)),
    };
    let mut panel = Panel::new("idle", "processor time in a second, nothing to do, 2 threads", Unit::Milliseconds);
    add::<RayonSpawn>(&mut panel, Role::Peer, "rayon", window, used_by_nothing);
    add::<Tokio>(&mut panel, Role::Peer, "tokio", window, used_by_nothing);
    add::<Windlass>(&mut panel, Role::Windlass, "windlass", window, used_by_nothing);
    suite.measure(panel);

    let title = "processor time in a second, beside one task that spins, 2 threads";
    let mut panel = Panel::new("idle", title, Unit::Milliseconds);
    add::<RayonSpawn>(&mut panel, Role::Peer, "rayon", window, used_beside_task);
    add::<Tokio>(&mut panel, Role::Peer, "tokio", window, used_beside_task);
    add::<Windlass>(&mut panel, Role::Windlass, "windlass", window, used_beside_task);
    suite.measure(panel);

    let mut panel = Panel::new("idle", "turns of the pool's threads in a second, nothing to do", Unit::Times);
    count::<RayonSpawn>(&mut panel, Role::Peer, "rayon", window);
    count::<Tokio>(&mut panel, Role::Peer, "tokio", window);
    count::<Windlass>(&mut panel, Role::Windlass, "windlass", window);
    suite.measure(panel);
}

/// A pool that is worn in, and asleep.
fn settled<P: TaskPool>() -> P {
    let pool = started(THREADS, WARM_UP);
    sleep(SETTLE);
    pool
}

/// Adds a subject that starts a pool, and says what it used in a window.
fn add<P: TaskPool>(panel: &mut Panel, role: Role, name: &str, window: Window, used: Used<P>) {
    panel.add(role, name, move |clock| {
        let used = used(&mut settled(), window).div_f64(window.0.as_secs_f64());
        clock.record(used, used);
    });
}

fn used_by_nothing<P: TaskPool>(_pool: &mut P, (window, _): Window) -> Duration {
    let before = time_of_others();
    sleep(window);
    time_of_others().saturating_sub(before)
}

/// Processor time of the threads other than the calling one.
fn time_of_others() -> Duration {
    cpu_time().saturating_sub(thread_cpu_time())
}

fn used_beside_task<P: TaskPool>(pool: &mut P, (_, spin): Window) -> Duration {
    let before = cpu_time();
    pool.flat(1, spin);
    // ORDER: Relaxed; the pool's wait orders it.
    let own = Duration::from_nanos(OWN_NANOSECONDS.load(Ordering::Relaxed));
    (cpu_time() - before).saturating_sub(own)
}

/// Processor time of the task's own.
static OWN_NANOSECONDS: AtomicU64 = AtomicU64::new(0);

fn spin_for(window: Duration) {
    let (before, since) = (thread_cpu_time(), Instant::now());
    while since.elapsed() < window {
        std::hint::spin_loop();
    }
    let own = thread_cpu_time() - before;
    // ORDER: Relaxed; see `used_beside_task`.
    OWN_NANOSECONDS.store(own.as_nanos() as u64, Ordering::Relaxed);
}

/// Adds a subject that counts the turns of its threads in a window.
fn count<P: TaskPool>(panel: &mut Panel, role: Role, name: &str, (window, _): Window) {
    panel.add(role, name, move |clock| {
        let _pool: P = settled();
        let before = turns_of_others();
        sleep(window);
        let turns = turns_of_others() - before;
        clock.count(turns as f64 / window.as_secs_f64());
    });
}

/// How often the kernel has put away a thread of this process, other than the calling one.
fn turns_of_others() -> u64 {
    let own = gettid().as_raw_nonzero().to_string();
    let tasks = fs::read_dir("/proc/self/task").expect("the system lists the threads");
    let others = tasks.flatten().filter(|task| task.file_name() != *own);
    // A thread that has ended meanwhile makes no turns.
    let statuses = others.filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
    statuses.map(|status| turns_in(&status)).sum()
}

fn turns_in(status: &str) -> u64 {
    let lines = status.lines().filter(|line| line.contains("ctxt_switches:"));
    lines.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum()
}
