//! An idle pool costs nothing: its threads are not scheduled at all.
//!
//! The kernel counts how often a thread was taken off its processor, by its own wish or not. These counts must stand
//! still. Real time passes here, for that is what is tested; alone in a program of its own, so that nobody else uses the
//! pools.
#![cfg(target_os = "linux")]

use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

use windlass_pool::{Pool, PoolConfig, Task};

/// How long the counts must stand still.
const WHILE: Duration = Duration::from_millis(200);
/// Longer than a worker's last look, and the waker's way.
const SETTLING: Duration = Duration::from_millis(20);
/// On a machine with other things to do, threads come late to their last look.
const SETTLED_BEFORE: Duration = Duration::from_secs(20);

/// One test at a time: they share the processors.
static TURN: Mutex<()> = Mutex::new(());

fn pool_of(name: &str, threads: usize) -> Pool {
    Pool::with(PoolConfig { threads, name: name.to_owned(), stack_size: 64 << 10, ..PoolConfig::default() }).unwrap()
}

/// Context switches, wanted or not, of all threads of this process whose name begins so.
fn switches_of(name: &str) -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let statuses = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("status")).ok());
    let of_pool = statuses.filter(|status| status.starts_with(&format!("Name:\t{name}")));
    let count_in = |status: String| -> u64 {
        let counts = status.lines().filter(|line| line.contains("voluntary_ctxt_switches"));
        counts.map(|line| line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()).sum()
    };
    of_pool.map(count_in).sum()
}

/// Waits until the counts stand still, and then has them stand still for a while.
fn must_not_be_scheduled(name: &str) {
    let began = Instant::now();
    // None are seen before the threads have begun and taken their names.
    let mut before = 0;
    loop {
        std::thread::sleep(SETTLING);
        let now = switches_of(name);
        if now == before && now > 0 {
            break;
        }
        assert!(began.elapsed() < SETTLED_BEFORE, "the workers never came to rest: {now} switches");
        before = now;
    }
    std::thread::sleep(WHILE);
    assert_eq!(switches_of(name), before, "workers without work were scheduled");
}

/// LZ-16: after its timed last look an idle worker sleeps for good, however many there are.
#[test]
fn workers_without_work_are_not_scheduled() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    for (name, threads) in [("one", 1), ("two", 2), ("many", 64)] {
        let pool = pool_of(name, threads);
        must_not_be_scheduled(name);

        // After work of every kind, too.
        pool.for_each(0..10_000, |_| ());
        (0..1_000).for_each(|_| pool.spawn_detached(|| ()));
        pool.wait_idle();
        pool.scope(|s| (0..100).for_each(|_| s.spawn(|_| ())));
        must_not_be_scheduled(name);

        assert_eq!(pool.spawn(|| 1).wait_blocking(), 1);
    }
}

/// SC-3: while one long task runs the other workers sleep. It does not spin itself here, but waits for a message: so
/// its thread counts, too.
#[test]
fn workers_beside_a_long_task_are_not_scheduled() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    for (name, threads) in [("pair", 2), ("crowd", 64)] {
        let pool = pool_of(name, threads);
        let (go, wait) = mpsc::channel::<()>();
        let (begun, has_begun) = mpsc::channel();
        let long: Task<()> = pool.spawn(move || {
            begun.send(()).unwrap();
            wait.recv().unwrap();
        });
        has_begun.recv().unwrap();

        must_not_be_scheduled(name);

        go.send(()).unwrap();
        long.wait();
    }
}

/// SC-4: a thread that waits for a task which another runs does not spin either, and keeps nobody awake.
#[test]
fn workers_that_wait_for_a_long_task_are_not_scheduled() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let pool = std::sync::Arc::new(pool_of("wait", 3));
    let (go, wait) = mpsc::channel::<()>();
    let (begun, has_begun) = mpsc::channel();
    let long = pool.spawn(move || {
        begun.send(()).unwrap();
        wait.recv().unwrap();
    });
    has_begun.recv().unwrap();
    let waiter = pool.spawn(move || long.wait());
    let outside = std::thread::Builder::new().name("wait-outside".to_owned());
    let outside = outside.spawn(move || waiter.wait_blocking()).unwrap();

    must_not_be_scheduled("wait");

    go.send(()).unwrap();
    outside.join().unwrap();
}

/// Nanoseconds that all threads whose name begins so have had a processor.
fn processor_time_of(name: &str) -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let is_of_pool =
        |path: &std::path::PathBuf| std::fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.starts_with(name));
    let time = |path: std::path::PathBuf| {
        let text = std::fs::read_to_string(path.join("schedstat")).unwrap_or_default();
        text.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(0_u64)
    };
    tasks.filter(is_of_pool).map(time).sum()
}

/// SC-4: those who wait for a predicate look now and then. They were told of their own going to sleep, and of each
/// other's, and so never slept.
#[test]
fn threads_that_wait_for_a_predicate_do_not_spin() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let pool = pool_of("asked", 2);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let wait = || pool.wait_until(|| is_over.load(std::sync::atomic::Ordering::Relaxed));

    let used = std::thread::scope(|threads| {
        for number in 0..2 {
            let builder = std::thread::Builder::new().name(format!("asker-{number}"));
            builder.spawn_scoped(threads, wait).unwrap();
        }
        std::thread::sleep(SETTLING);
        let before = processor_time_of("ask");
        std::thread::sleep(WHILE);
        let used = processor_time_of("ask") - before;
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        used
    });

    assert!(used < WHILE.as_nanos() as u64 / 2, "waiting for {WHILE:?} took {used} ns of the processors");
}
