//! `idle`: the processor time a pool uses while it has nothing to do, or one long task.
//!
//! Five seconds in all for each subject, in as many windows as there are turns. Each window has a pool of its own, for
//! other pools in the process would be counted too.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::measure::{Panel, Role, TURNS, Table, Unit, cpu_time, thread_cpu_time};
use super::peers::{RayonSpawn, TaskPool, Tokio, started};
use super::windlass::Windlass;

const THREADS: usize = 2;
const SPAN: Duration = Duration::from_secs(5);
const WINDOW: Duration = Duration::from_nanos(SPAN.as_nanos() as u64 / TURNS as u64);

/// For the pool to fall asleep after its warm-up, and for the one before it to end.
const SETTLE: Duration = Duration::from_millis(50);
const WARM_UP: usize = 10_000;

pub fn run(tables: &mut Vec<Table>) {
    let mut panel = Panel::new("idle", "processor time in a second, nothing to do, 2 threads", Unit::Milliseconds);
    add::<RayonSpawn>(&mut panel, Role::Peer, "rayon", used_by_nothing);
    add::<Tokio>(&mut panel, Role::Peer, "tokio", used_by_nothing);
    add::<Windlass>(&mut panel, Role::Windlass, "windlass", used_by_nothing);
    tables.push(panel.run());

    let title = "processor time in a second, beside one task that spins, 2 threads";
    let mut panel = Panel::new("idle", title, Unit::Milliseconds);
    add::<RayonSpawn>(&mut panel, Role::Peer, "rayon", used_beside_task);
    add::<Tokio>(&mut panel, Role::Peer, "tokio", used_beside_task);
    add::<Windlass>(&mut panel, Role::Windlass, "windlass", used_beside_task);
    tables.push(panel.run());
}

/// Adds a subject that starts a pool, wears it in, and says what it used in a window.
fn add<P: TaskPool>(panel: &mut Panel, role: Role, name: &str, used: fn(&mut P) -> Duration) {
    panel.add(role, name, move |clock| {
        let mut pool: P = started(THREADS, WARM_UP);
        sleep(SETTLE);
        let used = used(&mut pool).div_f64(WINDOW.as_secs_f64());
        clock.record(used, used);
    });
}

fn used_by_nothing<P: TaskPool>(_pool: &mut P) -> Duration {
    let before = cpu_time();
    sleep(WINDOW);
    cpu_time() - before
}

fn used_beside_task<P: TaskPool>(pool: &mut P) -> Duration {
    let before = cpu_time();
    pool.flat(1, spin_for_window);
    // ORDER: Relaxed; the pool's wait orders it.
    let own = Duration::from_nanos(OWN_NANOSECONDS.load(Ordering::Relaxed));
    (cpu_time() - before).saturating_sub(own)
}

/// Processor time of the task's own.
static OWN_NANOSECONDS: AtomicU64 = AtomicU64::new(0);

fn spin_for_window() {
    let (before, since) = (thread_cpu_time(), Instant::now());
    while since.elapsed() < WINDOW {
        std::hint::spin_loop();
    }
    let own = thread_cpu_time() - before;
    // ORDER: Relaxed; see `used_beside_task`.
    OWN_NANOSECONDS.store(own.as_nanos() as u64, Ordering::Relaxed);
}
