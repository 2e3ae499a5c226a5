//! A pool's life: start, stop, start again, shut down; threads and their names; what can be seen of it.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::Duration;

use windlass_pool::{Pool, PoolConfig, PoolError, Shutdown, Task, TaskError, blocking};

fn config_of(threads: usize) -> PoolConfig {
    PoolConfig { threads, ..PoolConfig::default() }
}

fn pool_of(threads: usize) -> Pool {
    Pool::with(config_of(threads)).unwrap()
}

#[test]
fn tasks_may_be_spawned_before_the_pool_is_started() {
    let pool = Pool::unstarted(config_of(2)).unwrap();
    let tasks: Vec<Task<usize>> = (0..100).map(|number| pool.spawn(move || number)).collect();
    assert!(tasks.iter().all(|task| !task.is_done()));

    pool.start().unwrap();

    assert_eq!(tasks.into_iter().map(Task::wait_blocking).sum::<usize>(), 4_950);
    assert!(matches!(pool.start(), Err(PoolError::Started)));
}

/// LZ-17: stopped, joined, started again, any number of times; what is queued waits.
#[test]
fn a_stopped_pool_keeps_what_is_queued_and_can_be_started_again() {
    let pool = pool_of(2);
    for round in 0..20 {
        pool.stop();
        pool.join_threads();
        let task = pool.spawn(move || round);
        assert!(task.wait_timeout(Duration::from_millis(1)).is_err_and(|task| {
            pool.start().unwrap();
            task.wait_blocking() == round
        }));
    }
}

#[test]
fn a_task_may_stop_its_pool_and_any_thread_may_join_it() {
    let pool = Arc::new(pool_of(3));
    let inner = Arc::clone(&pool);
    drop(pool.spawn(move || inner.stop()));

    let joiners: Vec<_> = (0..3)
        .map(|_| {
            let pool = Arc::clone(&pool);
            std::thread::spawn(move || pool.join_threads())
        })
        .collect();

    joiners.into_iter().for_each(|thread| thread.join().unwrap());
}

/// C-1: nothing accepted is lost when a pool that was never started, or was stopped, goes.
#[test]
fn a_pool_without_threads_runs_what_is_queued_when_it_goes() {
    let count = Arc::new(AtomicUsize::new(0));
    for is_started in [false, true] {
        let pool = Pool::unstarted(config_of(2)).unwrap();
        if is_started {
            pool.start().unwrap();
            pool.stop();
            pool.join_threads();
        }
        for _ in 0..500 {
            let count = Arc::clone(&count);
            pool.spawn_detached(move || {
                count.fetch_add(1, Ordering::SeqCst);
            });
        }
        drop(pool);
    }
    assert_eq!(count.load(Ordering::SeqCst), 1_000);
}

#[test]
fn a_shutdown_that_cancels_runs_nothing_that_had_not_begun() {
    let pool = Pool::unstarted(config_of(1)).unwrap();
    let queued: Vec<Task<usize>> = (0..10).map(|number| pool.spawn(move || number)).collect();

    let report = pool.shutdown(Shutdown::CancelQueued, Duration::from_secs(60));

    assert_eq!((report.ended, report.left, report.queued), (0, 0, 0));
    for task in queued {
        assert!(matches!(task.wait_result(), Err(TaskError::Cancelled)));
    }
}

#[test]
fn an_abandoned_pool_is_left_at_once_and_says_what_is_left() {
    let pool = pool_of(1);
    let (go, wait) = mpsc::channel::<()>();
    let (begun, has_begun) = mpsc::channel();
    let running = pool.spawn(move || {
        begun.send(()).unwrap();
        wait.recv().unwrap();
        1
    });
    has_begun.recv().unwrap();
    let queued = pool.spawn(|| 2);

    let report = pool.shutdown(Shutdown::Abandon, Duration::from_secs(60));

    assert_eq!((report.left, report.queued), (1, 1));
    go.send(()).unwrap();
    assert_eq!(running.wait_blocking(), 1);
    assert!(matches!(queued.wait_result(), Err(TaskError::Cancelled)));
}

/// A handle keeps the memory it needs, however long it outlives its pool.
#[test]
fn handles_outlive_their_pool() {
    let pool = pool_of(2);
    let (value, text) = (pool.spawn(|| 7), pool.spawn(|| "a result on the heap".to_owned()));
    let prepared = pool.prepare(|| 8);
    drop(pool);

    let elsewhere = std::thread::spawn(move || value.wait()).join().unwrap();

    assert_eq!((elsewhere, text.wait().as_str()), (7, "a result on the heap"));
    drop(prepared);
}

/// A destructor may do anything, also drop the last reference to the pool it runs in.
#[test]
fn a_pool_may_be_dropped_by_the_destructor_of_a_result() {
    for _ in 0..50 {
        let pool = Arc::new(pool_of(1));
        let inner = Arc::clone(&pool);
        let task = pool.spawn(move || inner);
        pool.wait_idle();
        drop(pool);
        drop(task);
    }
}

#[test]
fn threads_are_named_hooked_and_pinned_as_configured() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (starts, ends) = (Arc::clone(&seen), Arc::clone(&seen));
    let config = PoolConfig {
        name: "crew".to_owned(),
        pinned_to: vec![0],
        on_thread_start: Some(Arc::new(move |number| starts.lock().unwrap().push(("start", number)))),
        on_thread_end: Some(Arc::new(move |number| ends.lock().unwrap().push(("end", number)))),
        ..config_of(1)
    };
    let pool = Pool::with(config).unwrap();

    let facts = || {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:\t")).map(str::to_owned);
        (std::thread::current().name().map(str::to_owned), allowed)
    };
    let (name, allowed) = pool.spawn(facts).wait_blocking();

    assert_eq!(name.as_deref(), Some("crew-0"));
    if cfg!(target_os = "linux") {
        assert_eq!(allowed.as_deref(), Some("0"));
    }
    drop(pool);
    assert_eq!(*seen.lock().unwrap(), [("start", 0), ("end", 0)]);
}

#[test]
fn while_tasks_block_spare_threads_take_their_place() {
    let pool = pool_of(2);
    // More tasks than workers, all of which must be inside at once.
    let all_inside = Arc::new(Barrier::new(6));
    let tasks: Vec<Task<()>> = (0..6)
        .map(|_| {
            let all_inside = Arc::clone(&all_inside);
            pool.spawn(move || {
                blocking(|| all_inside.wait());
            })
        })
        .collect();
    tasks.into_iter().for_each(Task::wait_blocking);
    assert!(pool.spare_thread_count() >= 4);

    // They are used again rather than started again.
    for _ in 0..50 {
        pool.spawn(|| blocking(std::thread::yield_now)).wait_blocking();
    }
    assert!(pool.spare_thread_count() <= 6, "{} spare threads", pool.spare_thread_count());
}

#[test]
fn at_most_the_configured_number_of_spare_threads_is_started() {
    let pool = Pool::with(PoolConfig { spare_threads_max: 1, ..config_of(2) }).unwrap();
    let tasks: Vec<Task<()>> =
        (0..20).map(|_| pool.spawn(|| blocking(|| std::thread::sleep(Duration::from_millis(1))))).collect();
    tasks.into_iter().for_each(Task::wait_blocking);

    assert!(pool.spare_thread_count() <= 1);
}

#[test]
fn a_trace_names_what_ran_and_is_json() {
    let pool = pool_of(2);
    pool.spawn(|| ()).wait();
    pool.start_trace();
    pool.spawn(traced_task).wait_blocking();
    let trace = pool.take_trace();

    assert!(trace.starts_with("[\n{\"ph\":\"M\",\"pid\":1,\"tid\":0,\"name\":\"thread_name\""), "{trace}");
    assert!(trace.trim_end().ends_with("}\n]"), "{trace}");
    let spans: Vec<&str> = trace.lines().filter(|line| line.contains("\"ph\":\"X\"")).collect();
    assert!(matches!(spans[..], [span] if span.contains("traced_task") && span.contains("\"dur\":")), "{trace}");
    assert!(!pool.take_trace().contains("traced_task"), "a trace is taken once");
}

fn traced_task() {
    std::hint::black_box(());
}

/// The order in which numbered tasks and joins ran under a seed.
fn order_under(seed: u64) -> Vec<u32> {
    let pool = Arc::new(Pool::with(PoolConfig { deterministic_seed: Some(seed), ..PoolConfig::default() }).unwrap());
    let order = Arc::new(Mutex::new(Vec::new()));
    let note = |number| order.lock().unwrap().push(number);
    let tasks: Vec<Task<()>> = (0..8)
        .map(|number| {
            let order = Arc::clone(&order);
            let inner = Arc::clone(&pool);
            pool.spawn(move || {
                order.lock().unwrap().push(number);
                let order = Arc::clone(&order);
                inner.spawn_detached(move || order.lock().unwrap().push(100 + number));
            })
        })
        .collect();
    pool.join(|| note(50), || note(51));
    tasks.into_iter().for_each(Task::wait);
    pool.wait_idle();
    order.lock().unwrap().clone()
}

#[test]
fn a_deterministic_pool_repeats_itself_and_other_seeds_try_other_orders() {
    assert_eq!(order_under(7), order_under(7));
    assert_eq!(order_under(7).len(), 18);
    let orders: HashSet<Vec<u32>> = (0..20).map(order_under).collect();
    assert!(orders.len() > 10, "twenty seeds gave only {} orders", orders.len());
}

/// LZ-10, SC-1: two outside threads are two owners of two rings, and a pool serves any number of them, one after the other too.
#[test]
fn outside_threads_come_and_go_without_losing_tasks() {
    let pool = Arc::new(pool_of(2));
    let count = Arc::new(AtomicUsize::new(0));
    for _ in 0..20 {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let (pool, count) = (Arc::clone(&pool), Arc::clone(&count));
                std::thread::spawn(move || {
                    for _ in 0..200 {
                        let count = Arc::clone(&count);
                        pool.spawn_detached(move || {
                            count.fetch_add(1, Ordering::Relaxed);
                        });
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
    pool.wait_idle();
    assert_eq!(count.load(Ordering::Relaxed), 32_000);
}

/// A thread that ends leaves what it has queued to the workers; a pool that goes at the same time must not miss it.
#[test]
fn what_a_thread_leaves_behind_as_the_pool_goes_is_run() {
    for _ in 0..500 {
        let count = Arc::new(AtomicUsize::new(0));
        let pool = Arc::new(pool_of(1));
        let (theirs, counter) = (Arc::clone(&pool), Arc::clone(&count));
        let thread = std::thread::spawn(move || {
            for _ in 0..50 {
                let counter = Arc::clone(&counter);
                theirs.spawn_detached(move || {
                    counter.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        drop(pool);
        thread.join().unwrap();
        // Whoever dropped the pool last has waited for its tasks; `join` does not wait for the thread's lanes, but they
        // are given back before its end can be seen.
        assert_eq!(count.load(Ordering::SeqCst), 50);
    }
}

/// The lane of a pool that has gone is given back when its thread first uses another pool. What was current before that
/// was looked at afterwards, once: only the address sanitizer saw it.
#[test]
fn a_thread_goes_from_pool_to_pool() {
    for _ in 0..50 {
        let pool = pool_of(1);
        let task = pool.spawn(|| 1);
        drop(pool);
        assert_eq!(task.wait(), 1);
    }
}

/// A task of one pool that uses another one is still a task of the first.
#[test]
fn a_task_that_uses_another_pool_goes_on_in_its_own() {
    let (outer, inner) = (Arc::new(pool_of(1)), Arc::new(pool_of(1)));
    let used = Arc::clone(&inner);
    let task = outer.spawn(move || {
        used.spawn(|| ()).wait();
        let (go, wait) = mpsc::channel::<()>();
        // On a worker of the outer pool this has a spare thread take its place: on the current lane, so on the right one.
        blocking(|| {
            go.send(()).unwrap();
            wait.recv().unwrap();
        });
    });
    task.wait_blocking();
    assert_eq!(inner.spare_thread_count(), 0);
}
/// A thread's place in a pool that was dropped elsewhere was looked at after it had been given back, which only a memory
/// checker notices: valgrind did, in the C tests.
#[test]
fn a_pool_that_was_dropped_on_another_thread_is_forgotten_when_the_next_one_is_used() {
    for _ in 0..100 {
        let first = Pool::new().unwrap();
        first.spawn_detached(|| ());
        std::thread::spawn(move || drop(first)).join().unwrap();

        let second = Pool::new().unwrap();
        assert_eq!(second.spawn(|| 2).wait(), 2);
    }
}
