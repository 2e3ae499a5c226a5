//! Waiting: what runs meanwhile, what does not, and what is reported instead of hanging.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use windlass_pool::{Pool, PoolConfig, Priority, Task, TaskError, TaskOptions};

fn pool_of(threads: usize) -> Pool {
    Pool::with(PoolConfig { threads, ..PoolConfig::default() }).unwrap()
}

/// The least that polls a future: parks until it is woken.
fn block_on<T>(mut future: impl Future<Output = T> + Unpin) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        match std::pin::Pin::new(&mut future).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn a_task_can_be_awaited() {
    let pool = pool_of(2);
    for number in 0..2_000 {
        assert_eq!(block_on(pool.spawn(move || number + 1)), number + 1);
    }
}

#[test]
fn an_awaited_task_is_run_by_the_pool_and_not_by_who_polls() {
    let pool = pool_of(1);
    let here = std::thread::current().id();

    assert_ne!(block_on(pool.spawn(|| std::thread::current().id())), here);
}

#[test]
fn the_latest_waker_is_woken_and_a_dropped_future_wakes_nobody() {
    struct Count(AtomicU32);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let pool = pool_of(1);
    let (go, wait) = mpsc::channel::<()>();
    let mut task = pool.spawn(move || wait.recv().unwrap());
    let (first, second) = (Arc::new(Count(AtomicU32::new(0))), Arc::new(Count(AtomicU32::new(0))));
    for count in [&first, &second] {
        let waker = Waker::from(Arc::clone(count));
        assert!(std::pin::Pin::new(&mut task).poll(&mut Context::from_waker(&waker)).is_pending());
    }
    go.send(()).unwrap();
    while second.0.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    assert_eq!((first.0.load(Ordering::SeqCst), second.0.load(Ordering::SeqCst)), (0, 1));
    task.wait();

    let mut dropped = pool.spawn(|| ());
    let third = Arc::new(Count(AtomicU32::new(0)));
    let _ = std::pin::Pin::new(&mut dropped).poll(&mut Context::from_waker(&Waker::from(Arc::clone(&third))));
    drop(dropped);
    pool.wait_idle();
    assert_eq!(Arc::strong_count(&third), 1, "the waker of a dropped future was kept");
}

#[test]
fn waiting_with_a_timeout_gives_the_handle_back_and_runs_nothing() {
    let pool = pool_of(1);
    let (go, wait) = mpsc::channel::<()>();
    let (begun, has_begun) = mpsc::channel();
    let blocker = pool.spawn(move || {
        begun.send(()).unwrap();
        wait.recv().unwrap();
    });
    has_begun.recv().unwrap();
    let queued = pool.spawn(|| 5);

    let began = Instant::now();
    let queued = queued.wait_timeout(Duration::from_millis(30)).unwrap_err();
    assert!(began.elapsed() >= Duration::from_millis(30));
    assert!(!queued.is_done());
    go.send(()).unwrap();

    assert_eq!(queued.wait_timeout(Duration::from_secs(60)).unwrap(), 5);
    blocker.wait();
    assert_eq!(pool.spawn(|| 6).wait_timeout(Duration::MAX).unwrap(), 6);
}

#[test]
fn a_panic_or_a_cancellation_can_be_had_as_an_answer() {
    let pool = pool_of(1);
    let TaskError::Panicked(panic) = pool.spawn(|| panic!("no {}", std::hint::black_box(1))).wait_result().unwrap_err()
    else {
        panic!("it was not cancelled");
    };

    assert_eq!(panic.downcast_ref::<String>().unwrap(), "no 1");
    assert_eq!(pool.spawn(|| 1).wait_result().unwrap(), 1);
    assert_eq!(TaskError::Panicked(panic).to_string(), "the task panicked: no 1");
}

/// A thread that waits and runs nothing cannot come to a lock that it holds.
#[test]
fn a_lock_held_across_a_blocking_wait_is_not_asked_for_by_the_same_thread() {
    let pool = Arc::new(pool_of(2));
    let lock = Arc::new(Mutex::new(0));
    for _ in 0..500 {
        let others: Vec<Task<()>> = (0..4)
            .map(|_| {
                let lock = Arc::clone(&lock);
                pool.spawn(move || *lock.lock().unwrap() += 1)
            })
            .collect();
        let (inner_pool, inner_lock) = (Arc::clone(&pool), Arc::clone(&lock));
        let holder = pool.spawn(move || {
            let child = inner_pool.spawn(|| 1);
            let mut held = inner_lock.lock().unwrap();
            *held += child.wait_blocking();
        });
        holder.wait();
        others.into_iter().for_each(Task::wait);
    }
    assert_eq!(*lock.lock().unwrap(), 2_500);
}

/// As above, for waits that help: inside `isolate` only what was spawned inside it is run.
#[test]
fn a_lock_held_across_a_wait_inside_isolate_is_not_asked_for_by_the_same_thread() {
    let pool = Arc::new(pool_of(1));
    let lock = Arc::new(Mutex::new(0));
    let (inner_pool, inner_lock) = (Arc::clone(&pool), Arc::clone(&lock));
    let task = pool.spawn(move || {
        let others: Vec<Task<()>> = (0..4)
            .map(|_| {
                let lock = Arc::clone(&inner_lock);
                inner_pool.spawn(move || *lock.lock().unwrap() += 1)
            })
            .collect();
        let mut held = inner_lock.lock().unwrap();
        // The only worker: without isolation the scope's wait would run one of the others, for ever.
        inner_pool.isolate(|| {
            inner_pool.scope(|s| s.spawn(|s| s.spawn(|_| ())));
            *held += inner_pool.spawn(|| 10).wait();
        });
        drop(held);
        others.into_iter().for_each(Task::wait);
    });
    task.wait_blocking();
    assert_eq!(*lock.lock().unwrap(), 14);
}

/// SC-4: waiting for a predicate runs tasks, and sleeps when there are none.
#[test]
fn waiting_for_a_predicate_runs_tasks_meanwhile() {
    let pool = Arc::new(pool_of(1));
    let inner = Arc::clone(&pool);
    let task = pool.spawn(move || {
        let count = Arc::new(AtomicUsize::new(0));
        for _ in 0..100 {
            let count = Arc::clone(&count);
            inner.spawn_detached(move || {
                count.fetch_add(1, Ordering::SeqCst);
            });
        }
        // The only worker waits inside a task: nobody else can run them.
        inner.wait_until(|| count.load(Ordering::SeqCst) == 100);
    });
    task.wait_blocking();
}

#[test]
fn a_predicate_that_a_stranger_makes_true_is_seen() {
    let pool = pool_of(1);
    let flag = Arc::new(AtomicBool::new(false));
    let stranger = Arc::clone(&flag);
    let thread = std::thread::spawn(move || stranger.store(true, Ordering::SeqCst));

    pool.wait_until(|| flag.load(Ordering::SeqCst));

    thread.join().unwrap();
}

#[test]
fn waiting_for_an_idle_pool_waits_for_what_tasks_spawn_too() {
    let pool = Arc::new(pool_of(3));
    let count = Arc::new(AtomicUsize::new(0));
    fn spawn_tree(pool: &Arc<Pool>, count: &Arc<AtomicUsize>, depth: u32) {
        count.fetch_add(1, Ordering::SeqCst);
        if depth > 0 {
            for _ in 0..2 {
                let (pool, count) = (Arc::clone(pool), Arc::clone(count));
                let inner = Arc::clone(&pool);
                pool.spawn_detached(move || spawn_tree(&inner, &count, depth - 1));
            }
        }
    }
    for _ in 0..20 {
        count.store(0, Ordering::SeqCst);
        spawn_tree(&pool, &count, 9);
        pool.wait_idle();
        assert_eq!(count.load(Ordering::SeqCst), (1 << 10) - 1);
    }
}

/// SC-5: waiting for one's own pool to be idle is reported.
#[test]
fn a_task_that_waits_for_its_own_pool_to_be_idle_is_told() {
    let pool = Arc::new(pool_of(1));
    let inner = Arc::clone(&pool);

    let error = pool.spawn(move || inner.wait_idle()).wait_result().unwrap_err();

    assert!(error.to_string().contains("waits for its own pool to be idle"), "{error}");
}

/// Two tasks that wait for each other would never end: one of them is told, in debug builds.
#[cfg(debug_assertions)]
#[test]
fn tasks_that_wait_for_each_other_are_found_out_in_debug_builds() {
    let pool = Arc::new(pool_of(2));
    let (to_first, first_gets) = mpsc::channel::<Task<()>>();
    let (to_second, second_gets) = mpsc::channel::<Task<()>>();
    let first = pool.spawn(move || first_gets.recv().unwrap().wait());
    let (told, is_told) = mpsc::channel();
    let second = pool.spawn(move || {
        let other = second_gets.recv().unwrap();
        told.send(other.wait_result().is_err()).unwrap();
    });
    to_first.send(second).unwrap();
    to_second.send(first).unwrap();

    // Whichever closes the circle panics; the other one's wait ends then.
    let _ = is_told.recv_timeout(Duration::from_secs(60));
    pool.wait_idle();
}

/// LZ-18, SC-11: foreign tasks are run inside a wait to a fixed depth only.
#[test]
fn helping_is_bounded_in_depth() {
    let config = PoolConfig { threads: 2, stack_size: 128 << 10, ..PoolConfig::default() };
    let pool = Arc::new(Pool::with(config).unwrap());
    let tasks: Vec<Task<()>> = (0..2_000)
        .map(|_| {
            let inner = Arc::clone(&pool);
            pool.spawn(move || {
                let buffer = std::hint::black_box([1_u8; 1_024]);
                inner.spawn(std::thread::yield_now).wait();
                std::hint::black_box(buffer);
            })
        })
        .collect();
    tasks.into_iter().for_each(Task::wait_blocking);
}

/// All threads are as deep in waits as they may go, and what they wait for is a task of somebody else: it was never run when
/// they waited for a predicate, and never when it was low.
#[test]
fn waits_at_the_greatest_depth_still_come_to_what_they_wait_for() {
    for priority in [Priority::Normal, Priority::Low] {
        let pool = Arc::new(pool_of(1));
        let is_true = Arc::new(AtomicBool::new(false));
        let (done, is_done) = mpsc::channel();
        for _ in 0..20 {
            let (inner, is_true, done) = (Arc::clone(&pool), Arc::clone(&is_true), done.clone());
            pool.spawn_detached(move || {
                inner.wait_until(|| is_true.load(Ordering::SeqCst));
                done.send(()).unwrap();
            });
        }
        let options = TaskOptions { priority, ..TaskOptions::default() };
        pool.prepare_with(options, move || is_true.store(true, Ordering::SeqCst)).schedule_detached();
        (0..20).for_each(|_| is_done.recv().unwrap());
    }
}

/// SC-3: while one long task runs, the others sleep.
#[test]
fn idle_workers_sleep_beside_a_long_task() {
    let pool = pool_of(3);
    let (go, wait) = mpsc::channel::<()>();
    let (begun, has_begun) = mpsc::channel();
    let long = pool.spawn(move || {
        begun.send(()).unwrap();
        wait.recv().unwrap();
    });
    has_begun.recv().unwrap();
    let parked = || pool.metrics().iter().map(|worker| worker.parked).sum::<u64>();
    let mut last = parked();
    // They have looked for the last time when nothing changes for a while.
    loop {
        std::thread::sleep(Duration::from_millis(50));
        let now = parked();
        if now == last {
            break;
        }
        last = now;
    }
    go.send(()).unwrap();
    long.wait();
}
