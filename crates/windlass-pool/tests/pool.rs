//! The promises of the pool, by its public interface only.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::Duration;

use windlass_pool::{Pool, PoolConfig, PoolError, Shutdown};

fn pool_of(threads: usize) -> Pool {
    Pool::with(PoolConfig { threads, ..PoolConfig::default() }).unwrap()
}

fn message(panic: Box<dyn std::any::Any + Send>) -> String {
    panic.downcast_ref::<&str>().map(|text| (*text).to_owned()).unwrap_or_else(|| *panic.downcast().unwrap())
}

#[test]
fn a_task_gives_its_value_to_the_waiter() {
    let pool = pool_of(2);

    assert_eq!(pool.spawn(|| "a value".to_owned()).wait(), "a value");
}

#[test]
fn a_task_without_a_handle_runs_all_the_same() {
    let pool = pool_of(2);
    let (send, receive) = mpsc::channel();

    drop(pool.spawn(move || send.send(7).unwrap()));

    assert_eq!(receive.recv().unwrap(), 7);
}

/// LZ-19: large and over-aligned closures and results are put where they belong.
#[test]
fn closures_and_results_of_any_size_and_alignment_arrive_whole() {
    #[repr(align(128))]
    #[derive(Clone, Copy, PartialEq, Debug)]
    struct Aligned(u64);
    let pool = pool_of(2);
    let (large, aligned) = ([7_u64; 1_000], Aligned(9));

    let result = pool.spawn(move || (large, aligned, std::ptr::from_ref(&aligned).addr() % 128)).wait();

    assert_eq!(result, (large, aligned, 0));
}

#[test]
fn results_nobody_takes_are_dropped_once() {
    struct Counted(Arc<AtomicU32>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let pool = pool_of(2);
    let dropped = Arc::new(AtomicU32::new(0));

    for _ in 0..1_000 {
        let counted = Counted(Arc::clone(&dropped));
        drop(pool.spawn(move || counted));
    }
    drop(pool);

    assert_eq!(dropped.load(Ordering::SeqCst), 1_000);
}

#[test]
fn a_panic_reaches_the_waiter_and_the_pool_goes_on() {
    let pool = pool_of(1);

    let panic = catch_unwind(AssertUnwindSafe(|| pool.spawn(|| panic!("lost {}", 1)).wait())).unwrap_err();

    assert_eq!(message(panic), "lost 1");
    assert_eq!(pool.spawn(|| 2).wait(), 2);
}

/// SC-6, BP-1: what is queued behind a panic is run.
#[test]
fn a_panic_loses_nothing_that_is_queued_behind_it() {
    let config = PoolConfig { threads: 1, panic_hook: Arc::new(|_| ()), ..PoolConfig::default() };
    let pool = Pool::with(config).unwrap();
    let ran = Arc::new(AtomicU32::new(0));

    for number in 0..100 {
        let ran = Arc::clone(&ran);
        drop(pool.spawn(move || {
            ran.fetch_add(1, Ordering::SeqCst);
            assert!(number % 2 == 0);
        }));
    }
    drop(pool);

    assert_eq!(ran.load(Ordering::SeqCst), 100);
}

#[test]
fn the_panic_of_a_task_nobody_waits_for_is_told_to_the_hook() {
    let (send, told) = mpsc::channel();
    let send = Mutex::new(send);
    let hook = Arc::new(move |panic| send.lock().unwrap().send(message(panic)).unwrap());
    let pool = Pool::with(PoolConfig { panic_hook: hook, ..PoolConfig::default() }).unwrap();

    drop(pool.spawn(|| panic!("unheard")));

    assert_eq!(told.recv().unwrap(), "unheard");
}

#[test]
fn join_runs_both_and_may_borrow() {
    let pool = pool_of(2);
    let text = "borrowed".to_owned();

    assert_eq!(pool.join(|| text.len(), || text.to_uppercase()), (8, "BORROWED".to_owned()));
}

#[test]
fn joins_nest_to_any_depth() {
    fn fib(pool: &Pool, n: u32) -> u64 {
        if n < 2 {
            return u64::from(n);
        }
        let (a, b) = pool.join(|| fib(pool, n - 1), || fib(pool, n - 2));
        a + b
    }
    let pool = Arc::new(pool_of(4));

    assert_eq!(fib(&pool, 20), 6_765);
    let inside = Arc::clone(&pool);
    assert_eq!(pool.spawn(move || fib(&inside, 20)).wait(), 6_765);
}

#[test]
fn a_coarse_join_runs_on_two_threads_at_once() {
    let pool = pool_of(2);
    let meeting = Barrier::new(2);

    pool.join(|| meeting.wait(), || meeting.wait());
}

#[test]
fn join_throws_the_first_panic_after_both_have_ended() {
    let pool = pool_of(2);
    let ended = AtomicBool::new(false);

    let panic = catch_unwind(AssertUnwindSafe(|| pool.join(|| panic!("left"), || ended.store(true, Ordering::SeqCst))));
    assert_eq!(message(panic.unwrap_err()), "left");
    let panic = catch_unwind(AssertUnwindSafe(|| pool.join(|| 1, || -> u32 { panic!("right") })));
    assert_eq!(message(panic.unwrap_err()), "right");
}

#[test]
fn a_scope_waits_for_everything_spawned_in_it_also_by_its_tasks() {
    let pool = pool_of(3);
    let mut numbers = vec![0_u32; 1_000];

    pool.scope(|s| {
        for chunk in numbers.chunks_mut(10) {
            s.spawn(move |s| {
                let (left, right) = chunk.split_at_mut(5);
                s.spawn(move |_| left.fill(1));
                right.fill(2);
            });
        }
    });

    assert_eq!(numbers.iter().sum::<u32>(), 1_500);
}

#[test]
fn a_scope_throws_the_panic_of_a_task_when_all_have_ended() {
    let pool = pool_of(2);
    let ended = AtomicU32::new(0);

    let panic = catch_unwind(AssertUnwindSafe(|| {
        pool.scope(|s| {
            s.spawn(|_| panic!("inside"));
            for _ in 0..50 {
                s.spawn(|_| {
                    ended.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
    }));

    assert_eq!(message(panic.unwrap_err()), "inside");
    assert_eq!(ended.load(Ordering::SeqCst), 50);
}

/// SC-3, SC-4: a task may wait for tasks, with one thread, without end.
#[test]
fn tasks_that_wait_for_tasks_end_with_one_thread() {
    fn count_down(pool: Arc<Pool>, n: u32) -> u32 {
        if n == 0 {
            return 0;
        }
        let inner = Arc::clone(&pool);
        pool.spawn(move || count_down(inner, n - 1)).wait() + 1
    }
    let pool = Arc::new(pool_of(1));
    let outer = Arc::clone(&pool);

    assert_eq!(pool.spawn(move || count_down(outer, 200)).wait(), 200);
}

/// SC-5: waiting inside waiting must not eat the stack, however many tasks lie about.
#[test]
fn waiting_among_many_tasks_that_wait_keeps_to_its_stack() {
    let config = PoolConfig { threads: 2, stack_size: 512 << 10, ..PoolConfig::default() };
    let pool = Arc::new(Pool::with(config).unwrap());
    let spawn_one = |pool: &Arc<Pool>| {
        let inner = Arc::clone(pool);
        pool.spawn(move || {
            let task = inner.spawn(|| std::hint::black_box([1_u8; 1_000])[500]);
            u32::from(task.wait())
        })
    };

    let tasks: Vec<_> = (0..20_000).map(|_| spawn_one(&pool)).collect();

    assert_eq!(tasks.into_iter().map(windlass_pool::Task::wait).sum::<u32>(), 20_000);
}

#[cfg(debug_assertions)]
#[test]
fn a_task_that_waits_for_itself_is_found_out_in_debug_builds() {
    let pool = pool_of(1);
    let (send, receive) = mpsc::channel::<windlass_pool::Task<()>>();

    let (told, hear) = mpsc::channel();
    let task = pool.spawn(move || {
        let own = receive.recv().unwrap();
        let panic = catch_unwind(AssertUnwindSafe(|| own.wait())).unwrap_err();
        told.send(message(panic)).unwrap();
    });
    send.send(task).unwrap();

    assert!(hear.recv().unwrap().contains("waits for itself"));
}

/// LZ-7, LZ-8: more tasks than any ring holds, from a worker and from outside; every one runs exactly once.
#[test]
fn every_task_runs_exactly_once_beyond_every_capacity() {
    for threads in [1, 2, 16] {
        let pool = Arc::new(pool_of(threads));
        let runs: Arc<Vec<AtomicU32>> = Arc::new((0..40_000).map(|_| AtomicU32::new(0)).collect());
        let spawn_all = |pool: &Pool, runs: &Arc<Vec<AtomicU32>>, range: std::ops::Range<usize>| {
            for index in range {
                let runs = Arc::clone(runs);
                drop(pool.spawn(move || runs[index].fetch_add(1, Ordering::SeqCst)));
            }
        };

        let (inner_pool, inner_runs) = (Arc::clone(&pool), Arc::clone(&runs));
        let inside = pool.spawn(move || spawn_all(&inner_pool, &inner_runs, 0..20_000));
        spawn_all(&pool, &runs, 20_000..40_000);
        inside.wait();
        // The task held the other reference; it has ended.
        let pool = Arc::into_inner(pool);
        drop(pool);

        let wrong = runs.iter().filter(|count| count.load(Ordering::SeqCst) != 1).count();
        assert_eq!(wrong, 0, "{threads} threads");
    }
}

/// A ledger of many small waits from several outside threads, with slots so few that they are used again and again.
#[test]
fn few_slots_used_by_many_threads_mix_nothing_up() {
    let pool = Arc::new(Pool::with(PoolConfig { threads: 2, slot_count_max: 8, ..PoolConfig::default() }).unwrap());
    let strangers: Vec<_> = (0..4_u64)
        .map(|stranger| {
            let pool = Arc::clone(&pool);
            std::thread::spawn(move || {
                for number in 0..5_000 {
                    let value = stranger << 32 | number;
                    assert_eq!(pool.spawn(move || value).wait(), value);
                }
            })
        })
        .collect();

    for stranger in strangers {
        stranger.join().unwrap();
    }
}

#[test]
fn without_a_slot_try_spawn_gives_the_closure_back_and_spawn_runs_it_here() {
    let pool = Pool::with(PoolConfig { threads: 1, slot_count_max: 1, ..PoolConfig::default() }).unwrap();
    let (go, wait) = mpsc::channel::<()>();
    let (begun, has_begun) = mpsc::channel();
    let blocker = pool.spawn(move || {
        begun.send(()).unwrap();
        wait.recv().unwrap();
    });
    has_begun.recv().unwrap();

    let refused = pool.try_spawn(|| 5).unwrap_err();
    assert_eq!(refused(), 5);
    let here = std::thread::current().id();
    assert_eq!(pool.spawn(|| std::thread::current().id()).wait(), here);

    go.send(()).unwrap();
    blocker.wait();
}

#[test]
fn a_dropped_pool_has_run_everything() {
    let pool = pool_of(2);
    let ran = Arc::new(AtomicU32::new(0));
    for _ in 0..10_000 {
        let ran = Arc::clone(&ran);
        drop(pool.spawn(move || ran.fetch_add(1, Ordering::Relaxed)));
    }

    drop(pool);

    assert_eq!(ran.load(Ordering::Relaxed), 10_000);
}

/// C-7: a task that holds the last reference must not wait for itself.
#[test]
fn a_pool_dropped_by_its_own_task_ends() {
    let (send, receive) = mpsc::channel();
    let pool = Arc::new(pool_of(2));
    let (inner, (go, wait)) = (Arc::clone(&pool), mpsc::channel::<()>());
    drop(pool.spawn(move || {
        wait.recv().unwrap();
        drop(inner);
        send.send(()).unwrap();
    }));

    drop(pool);
    go.send(()).unwrap();

    receive.recv_timeout(Duration::from_secs(20)).unwrap();
}

#[test]
fn a_shutdown_says_what_was_left() {
    let pool = pool_of(2);
    let (go, wait) = mpsc::channel::<()>();
    let (begun, has_begun) = mpsc::channel();
    drop(pool.spawn(move || {
        begun.send(()).unwrap();
        wait.recv().unwrap();
    }));
    has_begun.recv().unwrap();

    let report = pool.shutdown(Shutdown::Drain, Duration::from_millis(20));

    assert_eq!(report.left, 1);
    go.send(()).unwrap();
    assert_eq!(pool_of(3).shutdown(Shutdown::Drain, Duration::from_secs(20)).ended, 3);
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    for (config, field) in [
        (PoolConfig { threads: 0, ..PoolConfig::default() }, "threads"),
        (PoolConfig { stack_size: 1, ..PoolConfig::default() }, "stack_size"),
        (PoolConfig { slot_count_max: 0, ..PoolConfig::default() }, "slot_count_max"),
        (PoolConfig { name: "a\0b".to_owned(), ..PoolConfig::default() }, "name"),
    ] {
        let error = Pool::with(config).unwrap_err();
        assert!(matches!(error, PoolError::Config { field: found, .. } if found == field), "{error}");
    }
}

/// LZ-16: an idle pool sleeps.
#[test]
fn workers_without_work_sleep_until_there_is_some() {
    let pool = pool_of(4);
    let parked = || pool.metrics().iter().map(|worker| worker.parked).sum::<u64>();
    // The last look, a moment after it went to sleep, is part of the same sleep.
    while parked() < 4 {
        std::thread::yield_now();
    }

    let before = parked();
    std::thread::sleep(Duration::from_millis(50));

    assert_eq!(parked(), before, "sleeping workers woke up by themselves");
    assert_eq!(pool.spawn(|| 1).wait(), 1);
}

/// LZ-10, SC-2: a worker of one pool is a stranger in another.
#[test]
fn two_pools_do_not_mix_up_their_workers() {
    let (one, two) = (Arc::new(pool_of(2)), Arc::new(pool_of(2)));
    let total = Arc::new(AtomicU64::new(0));

    let (inner_one, inner_two, inner_total) = (Arc::clone(&one), Arc::clone(&two), Arc::clone(&total));
    one.spawn(move || {
        for number in 0..1_000 {
            let (pool, total) = (Arc::clone(&inner_one), Arc::clone(&inner_total));
            inner_two
                .spawn(move || {
                    pool.spawn(move || total.fetch_add(number, Ordering::SeqCst)).wait();
                })
                .wait();
        }
    })
    .wait();

    assert_eq!(total.load(Ordering::SeqCst), 499_500);
}

#[test]
fn a_slot_is_ensured_if_there_is_one_and_the_next_task_has_it() {
    let pool = Pool::with(PoolConfig { threads: 1, slot_count_max: 1, ..PoolConfig::default() }).unwrap();

    assert!(pool.try_ensure_slot());
    let prepared = pool.prepare(|| 7);

    assert!(!pool.try_ensure_slot());
    assert_eq!(prepared.run(), 7);
}

/// Something that is run where it lies; it says where that is, and when it goes.
struct Lying {
    runs: Arc<AtomicUsize>,
    drops: Arc<AtomicUsize>,
    own_address: usize,
}

impl windlass_pool::Built for Lying {
    fn run(&mut self) {
        assert_eq!(std::ptr::from_ref(self).addr(), self.own_address, "it was moved");
        self.runs.fetch_add(1, Ordering::Relaxed);
        assert_ne!(self.runs.load(Ordering::Relaxed), 3, "the third one panics");
    }
}

impl Drop for Lying {
    fn drop(&mut self) {
        self.drops.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn what_is_built_in_its_place_runs_there_once_and_is_dropped_once() {
    let (runs, drops) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let hook: windlass_pool::PanicHook = Arc::new(|_| {});
    // So few slots that some are built beside them, and run at once.
    let config = PoolConfig { threads: 2, slot_count_max: 8, panic_hook: hook, ..PoolConfig::default() };
    let pool = Pool::with(config).unwrap();

    for _ in 0..1_000 {
        let build = |place: *mut Lying| {
            let lying = Lying { runs: Arc::clone(&runs), drops: Arc::clone(&drops), own_address: place.addr() };
            // SAFETY: the place is free, as `spawn_built` says.
            unsafe { place.write(lying) };
        };
        // SAFETY: it writes what it is asked for, and returns.
        unsafe { pool.spawn_built(build) };
    }
    pool.wait_idle();

    assert_eq!((runs.load(Ordering::Relaxed), drops.load(Ordering::Relaxed)), (1_000, 1_000));
}
