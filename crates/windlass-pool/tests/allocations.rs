//! What allocates and what does not, by a counting allocator.
//!
//! One test in a program of its own: the count is of all threads, for a worker that allocated behind a task would be no
//! better. Each operation is repeated until everything has grown, and must then allocate nothing at all.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use windlass_pool::{Pool, PoolConfig, Prepared, Scope, Task};

struct Counting;

static ALLOCATED: AtomicU64 = AtomicU64::new(0);
static FREED: AtomicU64 = AtomicU64::new(0);

// SAFETY: passes everything on to the system's allocator, and counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(1, Ordering::Relaxed);
        // SAFETY: passed on to the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        FREED.fetch_add(1, Ordering::Relaxed);
        // SAFETY: passed on to the caller.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations and frees of all threads while `f` runs.
fn counts_of(f: impl FnOnce()) -> (u64, u64) {
    let before = (ALLOCATED.load(Ordering::SeqCst), FREED.load(Ordering::SeqCst));
    f();
    (ALLOCATED.load(Ordering::SeqCst) - before.0, FREED.load(Ordering::SeqCst) - before.1)
}

/// Rounds before the counts must stand still. The free lists and rings of every thread grow to what the operation needs
/// at most, which depends on who steals what.
const WARM_UP: usize = 100;
/// Rounds that must not allocate.
const ROUNDS: usize = 100;

/// Runs an operation until it has allocated nothing in [`ROUNDS`] rounds in a row.
///
/// Rings and lists double when they have to, a few times in all; that many new beginnings are allowed, and an operation
/// that allocates in every round, or every hundredth, never comes through.
fn must_not_allocate(name: &str, mut operation: impl FnMut()) {
    (0..WARM_UP).for_each(|_| operation());
    for _ in 0..5 {
        if counts_of(|| (0..ROUNDS).for_each(|_| operation())).0 == 0 {
            return;
        }
    }
    panic!("{name} goes on allocating");
}

fn fib(pool: &Pool, n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = pool.join(|| fib(pool, n - 1), || fib(pool, n - 2));
    a + b
}

static RAN: AtomicUsize = AtomicUsize::new(0);

fn run() {
    RAN.fetch_add(1, Ordering::Relaxed);
}

/// Each operation by its name.
fn check_operations_of_the_owner(pool: &Pool) {
    must_not_allocate("spawn and wait", || {
        (0..20).for_each(|number| assert_eq!(pool.spawn(move || number).wait(), number))
    });
    must_not_allocate("many spawns, then waits", || {
        let mut tasks = [const { None }; 100];
        tasks.iter_mut().for_each(|task| *task = Some(pool.spawn(run)));
        tasks.into_iter().flatten().for_each(Task::wait);
    });
    must_not_allocate("spawn and wait_blocking", || pool.spawn(run).wait_blocking());
    must_not_allocate("spawn and drop", || drop(pool.spawn(run)));
    must_not_allocate("spawn_detached", || (0..50).for_each(|_| pool.spawn_detached(run)));
    must_not_allocate("spawn_many", || pool.spawn_many([run; 20]));
    must_not_allocate("scope and spawn", || pool.scope(|s| (0..50).for_each(|_| s.spawn(|_| run()))));
    must_not_allocate("scope and nested spawn", || pool.scope(|s| s.spawn(|s| s.spawn(|s| s.spawn(|_| run())))));
    must_not_allocate("scope and spawn_many", || {
        pool.scope(|s| s.spawn_many((0..600).map(|_| |_: &Scope<'_>| run())));
    });
    must_not_allocate("nested joins", || assert_eq!(fib(pool, 12), 144));
    must_not_allocate("for_each", || pool.for_each(0..1_000, |_| run()));
    must_not_allocate("map_reduce", || {
        assert_eq!(pool.map_reduce(0..1_000, || 0, |index| index, |a, b| a + b), 499_500);
    });
    must_not_allocate("attach", || assert_eq!(pool.attach(|lane| lane.join(|_| 1, |_| 2)), (1, 2)));
}

fn check_prepared_tasks(pool: &Pool) {
    must_not_allocate("prepare, schedule and wait", || pool.prepare(run).schedule().wait());
    must_not_allocate("prepare and schedule_detached", || pool.prepare(run).schedule_detached());
    must_not_allocate("prepare and run", || pool.prepare(run).run());
    must_not_allocate("prepare and drop", || drop(pool.prepare(run)));
    must_not_allocate("a chain of successors", || {
        let first = pool.prepare(run);
        let mut last = pool.prepare(run);
        first.continue_with(&last);
        for _ in 0..20 {
            let next = pool.prepare(run);
            last.continue_with(&next);
            std::mem::replace(&mut last, next).schedule_detached();
        }
        let last = last.schedule();
        first.schedule_detached();
        last.wait();
    });
    must_not_allocate("children and grandchildren", || {
        let (root, other) = (pool.prepare(run), pool.prepare(run));
        for _ in 0..10 {
            let (child, grandchild): (Prepared<()>, Prepared<()>) = (pool.prepare(run), pool.prepare(run));
            child.finish_with(&root).unwrap();
            child.finish_with(&other).unwrap();
            grandchild.finish_with(&child).unwrap();
            grandchild.schedule_detached();
            child.schedule_detached();
        }
        root.schedule().wait();
        other.schedule().wait();
    });
}

/// Only the payload of the cancellation itself may allocate; it is of no size, so it does not.
fn check_cancelling(pool: &Pool) {
    must_not_allocate("cancel", || {
        let task = pool.prepare(run).schedule();
        task.cancel();
        drop(task);
    });
}

/// A thread that is no worker, and stays.
fn check_outside_thread(pool: &Pool) {
    std::thread::scope(|threads| {
        threads.spawn(|| check_operations_of_the_owner(pool)).join().unwrap();
    });
}

/// What does not fit is boxed: one allocation, and that is freed.
fn check_large_closures(pool: &Pool) {
    let large = [1_u8; 81];
    let fitting = [1_u8; 80];
    let spawn = |pool: &Pool| {
        pool.spawn_detached(move || {
            std::hint::black_box(large);
        });
    };
    must_not_allocate("a closure of 80 bytes", || {
        pool.spawn_detached(move || {
            std::hint::black_box(fitting);
        });
    });
    // What is under way would be counted as well.
    pool.wait_idle();
    for _ in 0..WARM_UP {
        spawn(pool);
        pool.wait_idle();
    }
    for _ in 0..ROUNDS {
        // `wait_idle` may list this thread as a watcher in a list that grows, so it is not counted.
        let before = (ALLOCATED.load(Ordering::SeqCst), FREED.load(Ordering::SeqCst));
        let is_done = Arc::new(AtomicBool::new(false));
        let done = Arc::clone(&is_done);
        let task = move || {
            std::hint::black_box(large);
            done.store(true, Ordering::Release);
        };
        pool.spawn(task).wait();
        assert!(is_done.load(Ordering::Acquire));
        drop(is_done);
        let counts = (ALLOCATED.load(Ordering::SeqCst) - before.0, FREED.load(Ordering::SeqCst) - before.1);
        // One for the flag, one for the closure.
        assert_eq!(counts, (2, 2));
    }
}

#[test]
fn nothing_that_promises_not_to_allocates() {
    // The control: what does allocate is found out.
    let control = std::panic::catch_unwind(|| must_not_allocate("a box", || drop(std::hint::black_box(Box::new(1)))));
    assert!(control.is_err(), "the counting allocator does not count");

    for threads in [1, 2, 4] {
        let pool = Pool::with(PoolConfig { threads, ..PoolConfig::default() }).unwrap();
        check_operations_of_the_owner(&pool);
        check_prepared_tasks(&pool);
        check_cancelling(&pool);
        check_outside_thread(&pool);
        check_large_closures(&pool);
    }
}
