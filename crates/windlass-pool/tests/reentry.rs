//! What user code may do where the pool calls it: panic in a waker, in a hook, in a predicate; use another pool; wait where
//! nobody else is there to run anything. Each was a fault once, found by reading.

use std::cell::Cell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use windlass_pool::{Graph, Pool, PoolConfig};

fn config_of(threads: usize) -> PoolConfig {
    PoolConfig { threads, ..PoolConfig::default() }
}

/// A panic that panics again when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            std::panic::resume_unwind(Box::new("the payload"));
        }
    }
}

/// A waker that panicked unwound through the wait of a scope, whose task went on on a stack that was gone.
#[test]
fn a_waker_that_panics_does_not_end_a_scope_before_its_tasks() {
    struct Bad;
    impl Wake for Bad {
        fn wake(self: Arc<Self>) {
            std::panic::resume_unwind(Box::new("the waker"));
        }
    }
    let told = Arc::new(AtomicU32::new(0));
    let hook = Arc::clone(&told);
    let panic_hook = Arc::new(move |_| {
        hook.fetch_add(1, Ordering::SeqCst);
    });
    let pool = Pool::with(PoolConfig { panic_hook, ..config_of(1) }).unwrap();
    let (go, wait) = mpsc::channel::<()>();
    let (begun, has_begun) = mpsc::channel();
    let mut awaited = None;
    let mut count = 0;
    let counted = &mut count;
    pool.scope(|s| {
        s.spawn(move |_| {
            begun.send(()).unwrap();
            wait.recv().unwrap();
            *counted += 1;
        });
        has_begun.recv().unwrap();
        // The only worker is busy: the wait of the scope runs this one, and wakes the waker.
        let task = awaited.insert(pool.spawn(move || go.send(()).unwrap()));
        let waker = Waker::from(Arc::new(Bad));
        assert!(Pin::new(task).poll(&mut Context::from_waker(&waker)).is_pending());
    });
    assert_eq!((count, told.load(Ordering::SeqCst)), (1, 1));
    awaited.unwrap().wait();
}

#[test]
fn a_hook_whose_panic_panics_again_does_not_end_a_scope_before_its_tasks() {
    let panic_hook = Arc::new(|_| std::panic::resume_unwind(Box::new(Bomb)));
    let pool = Pool::with(PoolConfig { panic_hook, ..config_of(1) }).unwrap();
    for _ in 0..50 {
        let mut count = 0;
        pool.scope(|s| {
            s.spawn(|_| count += 1);
            pool.spawn_detached(|| std::panic::resume_unwind(Box::new(Bomb)));
        });
        assert_eq!(count, 1);
    }
    pool.wait_idle();
    assert_eq!(pool.spawn(|| 5).wait(), 5);
}

/// The lane of the other pool stayed the current one of the worker, and the next run of a plan began on it.
#[test]
fn a_hook_that_uses_another_pool_leaves_its_own_alone() {
    let other = Arc::new(Pool::with(config_of(1)).unwrap());
    let used = Arc::clone(&other);
    let panic_hook = Arc::new(move |_| used.spawn_detached(|| ()));
    let pool = Pool::with(PoolConfig { panic_hook, ..config_of(1) }).unwrap();
    let mut graph = Graph::new();
    graph.add(|| ());
    let plan = graph.seal().unwrap();
    for _ in 0..20 {
        pool.spawn_detached(|| std::panic::resume_unwind(Box::new("told")));
        pool.wait_idle();
        assert_eq!(plan.spawn(&pool).unwrap().wait_blocking().runs, 1);
    }
}

/// The thread stayed counted as one that searches, and nobody was woken any more.
#[test]
fn a_predicate_that_panics_leaves_nothing_behind() {
    let pool = Pool::with(config_of(2)).unwrap();
    let asked = Cell::new(0);
    let wait = || {
        pool.wait_until(|| {
            asked.set(asked.get() + 1);
            assert!(asked.get() % 50 != 0, "enough");
            false
        });
    };
    for _ in 0..10 {
        assert!(catch_unwind(AssertUnwindSafe(wait)).is_err());
        let (done, is_done) = mpsc::channel();
        pool.spawn_detached(move || done.send(()).unwrap());
        is_done.recv().unwrap();
    }
}

/// It was asked again, and said no: the wait went on with the panic in its pocket. Only asked while the thread is about to
/// sleep, so real time must pass: each wait lasts until it has slept for a while.
#[test]
fn a_predicate_that_has_panicked_is_not_asked_again() {
    let pool = Pool::with(config_of(1)).unwrap();
    for last in 1..30 {
        let (began, asked) = (std::time::Instant::now(), Cell::new(0));
        let wait = || {
            pool.wait_until(|| {
                if began.elapsed() > Duration::from_millis(3) {
                    asked.set(asked.get() + 1);
                }
                assert_ne!(asked.get(), last, "enough");
                false
            });
        };
        assert!(catch_unwind(AssertUnwindSafe(wait)).is_err());
        assert_eq!(asked.get(), last);
    }
}

/// The first of the two tasks of a run was dropped for want of a slot for the second, and counted at nobody.
#[test]
fn a_plan_that_finds_no_slots_can_be_run_when_there_are_some() {
    for slots in 1..4 {
        let pool = Pool::unstarted(PoolConfig { slot_count_max: slots, ..config_of(1) }).unwrap();
        let mut graph = Graph::new();
        graph.add(|| ());
        let plan = graph.seal().unwrap();
        plan.run(&pool).unwrap();
        let held = pool.prepare(|| ());
        assert!(catch_unwind(AssertUnwindSafe(|| plan.spawn(&pool))).is_err());
        drop(held);
        assert_eq!(plan.run(&pool).unwrap().skipped, 0);
    }
}

/// The count of the node went below zero and took the mark away that says that it runs: it was called twice at a time.
#[test]
fn a_loop_through_the_predecessor_of_a_running_node_is_a_panic_and_not_a_second_call() {
    let pool = Pool::with(config_of(2)).unwrap();
    let (is_inside, has_begun, goes_on) = (AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false));
    let mut graph = Graph::new();
    let (begin, other) = (graph.add_condition(|| 0), graph.add_empty());
    let looped = graph.add_empty();
    let mut rounds = 0;
    let again = graph.add_condition(|| {
        while !has_begun.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        rounds += 1;
        goes_on.store(rounds > 3, Ordering::SeqCst);
        if rounds > 3 { 9 } else { 0 }
    });
    let long = graph.add(|| {
        assert!(!is_inside.swap(true, Ordering::SeqCst), "called twice at a time");
        has_begun.store(true, Ordering::SeqCst);
        while !goes_on.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        is_inside.store(false, Ordering::SeqCst);
    });
    graph.precede(begin, looped);
    graph.precede([other, looped], long);
    graph.precede(looped, again);
    graph.precede(again, looped);
    let plan = graph.seal().unwrap();

    let panic = catch_unwind(AssertUnwindSafe(|| plan.run(&pool))).unwrap_err();

    let text = panic.downcast_ref::<&str>().unwrap();
    assert!(text.contains("that was running") || text.contains("before that node had begun"), "{text}");
}

/// The full pool ran older tasks for want of a slot, and what was spawned then was not taken for a descendant.
#[test]
fn isolation_in_a_full_pool_runs_what_is_spawned_inside_it() {
    let pool = Arc::new(Pool::with(PoolConfig { slot_count_max: 100, ..config_of(1) }).unwrap());
    let inner = Arc::clone(&pool);
    let task = pool.spawn(move || {
        (0..99).for_each(|_| inner.spawn_detached(|| ()));
        let mut count = 0;
        inner.isolate(|| inner.scope(|s| s.spawn(|_| count += 1)));
        count
    });
    assert_eq!(task.wait_blocking(), 1);
}

/// Nobody else is there to run anything: a wait that runs nothing else still runs what it waits for.
#[test]
fn every_wait_ends_in_a_pool_with_a_seed() {
    for seed in 0..20 {
        let config = PoolConfig { deterministic_seed: Some(seed), ..PoolConfig::default() };
        let pool = Arc::new(Pool::with(config).unwrap());
        assert_eq!(pool.spawn(|| 1).wait_blocking(), 1);
        assert_eq!(pool.spawn(|| 2).wait_timeout(Duration::from_secs(60)).unwrap(), 2);
        let inner = Arc::clone(&pool);
        assert_eq!(pool.spawn(move || inner.spawn(|| 3).wait_blocking()).wait(), 3);
    }
}

/// SC-5: also where the waiting thread runs the task itself.
#[test]
fn a_task_run_by_who_waits_for_quiet_is_inside_the_pool() {
    let pool = Arc::new(Pool::unstarted(config_of(1)).unwrap());
    let inner = Arc::downgrade(&pool);
    let (told, is_told) = mpsc::channel();
    pool.spawn_detached(move || {
        let pool = inner.upgrade().unwrap();
        told.send(catch_unwind(AssertUnwindSafe(|| pool.wait_idle())).is_err()).unwrap();
        assert_eq!(pool.spawn(|| 1).wait_blocking(), 1);
    });
    pool.wait_idle();
    assert!(is_told.recv().unwrap());
}

/// A predicate that spawned a task had it run by the waiting thread, which still counted as one that looks for work: what
/// that task spawned and waited for woke nobody.
#[test]
fn a_task_run_inside_a_wait_can_wake_the_others() {
    let pool = Arc::new(Pool::with(config_of(1)).unwrap());
    let (done, is_done) = mpsc::channel();
    let asked = Cell::new(0);
    pool.wait_until(|| {
        asked.set(asked.get() + 1);
        if asked.get() == 4 {
            let (inner, done) = (Arc::clone(&pool), done.clone());
            pool.spawn_detached(move || {
                let (answer, is_answered) = mpsc::channel();
                inner.spawn_detached(move || answer.send(()).unwrap());
                is_answered.recv().unwrap();
                done.send(()).unwrap();
            });
        }
        is_done.try_recv().is_ok()
    });
}
