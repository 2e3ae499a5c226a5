//! What goes wrong in other engines, and must not here: one test for each, named after its id.
//!
//! `docs/pool-hazards.md` has the whole list, with those that other files test.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use windlass_pool::{Pool, PoolConfig, PoolError, Prepared, Scope, Shutdown, Task, TaskError};

fn pool_of(threads: usize) -> Pool {
    Pool::with(PoolConfig { threads, ..PoolConfig::default() }).unwrap()
}

/// A pool without threads and with few slots: everything happens on this thread.
fn unstarted_pool_of(slot_count_max: usize) -> Pool {
    Pool::unstarted(PoolConfig { threads: 1, slot_count_max, ..PoolConfig::default() }).unwrap()
}

/// Counts how often it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// LZ-1: a slot that was a child's is a plain task's next. Its end must not be counted at the parent it no longer has.
#[test]
fn a_slot_used_again_has_forgotten_its_parent() {
    let pool = unstarted_pool_of(2);
    for round in 0..100 {
        let (parent, child) = (pool.prepare(|| 1), pool.prepare(|| 2));
        child.finish_with(&parent).unwrap();
        assert_eq!((child.run(), parent.run()), (2, 1));

        let (left, right) = (pool.spawn(move || round), pool.spawn(move || round + 1));

        assert_eq!((right.wait(), left.wait()), (round + 1, round));
    }
}

/// LZ-2: the entry of a cancelled task lies in the ring of the thread that waits for it: it must not be run, for the place
/// of its closure holds its outcome.
#[test]
fn a_task_that_was_cancelled_can_be_waited_for_where_it_was_spawned() {
    let pool = unstarted_pool_of(8);
    for _ in 0..100 {
        let task = pool.spawn(|| 1);
        assert!(task.cancel());
        assert!(matches!(task.wait_result(), Err(TaskError::Cancelled)));

        let (parent, child) = (pool.spawn(|| 1), pool.prepare(|| 2));
        child.finish_with(&parent).unwrap();
        assert!(parent.cancel());
        assert!(!parent.is_done(), "its child keeps it open");
        drop(child);
        assert!(matches!(parent.wait_result(), Err(TaskError::Cancelled)));
    }
}

/// LZ-4: as soon as a waiter sees the end it uses the slot again. Whoever ends the task must have read parent, waiter and
/// successors before.
#[test]
fn a_waiter_may_use_the_slot_again_at_once() {
    let pool = Pool::with(PoolConfig { threads: 2, slot_count_max: 16, ..PoolConfig::default() }).unwrap();
    let ends = Arc::new(AtomicUsize::new(0));
    let count = |ends: &Arc<AtomicUsize>| {
        let ends = Arc::clone(ends);
        move || {
            ends.fetch_add(1, Ordering::Relaxed);
        }
    };
    for round in 0..10_000 {
        let (parent, child, next) =
            (pool.prepare(count(&ends)), pool.prepare(count(&ends)), pool.prepare(count(&ends)));
        child.finish_with(&parent).unwrap();
        child.continue_with(&next);
        let (next, parent, child) = (next.schedule(), parent.schedule(), child.schedule());
        child.wait_blocking();
        // Into the slot that has just become free, while the one who ended the child may still be about it.
        drop(pool.spawn(|| ()));
        parent.wait_blocking();
        next.wait_blocking();
        assert_eq!(ends.load(Ordering::Relaxed), 3 * (round + 1));
    }
}

/// LZ-5: what a task has written is there for whoever has waited for it. On x86 the order cannot be seen to fail: the
/// proof is the loom model of the slot, whose control weakens it.
#[test]
fn what_a_task_has_written_is_seen_by_its_waiter() {
    let pool = pool_of(2);
    for round in 0..20_000_u64 {
        let mut written = vec![0_u64; 8];
        let task = pool.spawn(move || {
            written.fill(round);
            written
        });
        assert!(task.wait_blocking().iter().all(|number| *number == round));
    }
}

/// LZ-9, C-5: numbers of threads and of slots are as large as they need to be: 32 and 256 are nothing special.
#[test]
fn pools_of_more_than_32_and_of_256_threads_know_each_of_them() {
    for threads in [33, 256] {
        let numbers = Arc::new(Mutex::new(HashSet::new()));
        let seen = Arc::clone(&numbers);
        let config = PoolConfig {
            threads,
            stack_size: 64 << 10,
            on_thread_start: Some(Arc::new(move |number| assert!(seen.lock().unwrap().insert(number)))),
            ..PoolConfig::default()
        };
        let pool = Pool::with(config).unwrap();
        let tasks: Vec<Task<usize>> = (0..5_000).map(|number| pool.spawn(move || number)).collect();
        assert_eq!(tasks.into_iter().map(Task::wait_blocking).sum::<usize>(), 12_497_500);
        assert_eq!(pool.metrics().len(), threads);
        drop(pool);
        assert_eq!(*numbers.lock().unwrap(), (0..threads).collect());
    }
}

/// LZ-10, SC-2: a tie between tasks of two pools would have one pool count and free what is the other's.
#[test]
fn tasks_of_two_pools_are_not_tied() {
    let (one, two) = (pool_of(1), pool_of(1));
    let (left, right) = (one.prepare(|| 1), two.prepare(|| 2));
    let refused = |tie: &dyn Fn()| catch_unwind(AssertUnwindSafe(tie)).is_err();

    assert!(refused(&|| left.continue_with(&right)));
    assert!(refused(&|| right.finish_with(&left).unwrap()));
    assert!(refused(&|| left.continue_with(&left)), "a task that follows itself never runs");

    assert_eq!((left.run(), right.run()), (1, 2));
}

/// LZ-14: the end of a child may be the end of its parent, and that the end of the parent's parent, and so on. A worker
/// counts ends for a while before it tells them; the end of the fourth in such a line was credited to the next group it
/// came to: one group ended too early, or twice, and one never.
#[test]
fn ends_of_nested_groups_are_counted_where_they_belong() {
    let pool = unstarted_pool_of(64);
    for _ in 0..100 {
        let [great, grand, parent, child] = [4, 3, 2, 1].map(|number| pool.prepare(move || number));
        child.finish_with(&parent).unwrap();
        parent.finish_with(&grand).unwrap();
        grand.finish_with(&great).unwrap();
        let (other, first, second) = (pool.prepare(|| 5), pool.prepare(|| 6), pool.prepare(|| 7));
        first.finish_with(&other).unwrap();
        second.finish_with(&other).unwrap();

        // A thread takes its youngest task first: from the great one to the child, then the other group.
        let second = second.schedule();
        let (first, other) = (first.schedule(), other.schedule());
        let (child, parent, grand, great) = (child.schedule(), parent.schedule(), grand.schedule(), great.schedule());
        pool.wait_idle();

        let tasks = [great, grand, parent, child, other, first, second];
        assert!(tasks.iter().all(Task::is_done));
        assert_eq!(tasks.map(Task::wait), [4, 3, 2, 1, 5, 6, 7]);
    }
}

/// LZ-18: a handle is good on any thread: to schedule, tie, cancel, ask and wait.
#[test]
fn a_handle_may_be_used_on_another_thread_than_where_it_was_made() {
    let pool = Arc::new(pool_of(2));
    for _ in 0..50 {
        let (first, second): (Prepared<u32>, Prepared<u32>) = (pool.prepare(|| 1), pool.prepare(|| 2));
        let (third, pool) = (pool.spawn(|| 3), Arc::clone(&pool));
        let stranger = std::thread::spawn(move || {
            first.continue_with(&second);
            let late = pool.prepare(|| 4);
            third.continue_with(&late);
            let tasks = [second.schedule(), first.schedule(), third, late.schedule()];
            assert!(!tasks[2].cancel() || tasks[2].is_done());
            tasks
        });
        let [second, first, third, late] = stranger.join().unwrap();
        let third = third.wait_result().unwrap_or(3);
        assert_eq!([first.wait(), second.wait(), third, late.wait()], [1, 2, 3, 4]);
    }
}

/// LZ-18, SC-11: a worker that spawns more than there are slots runs tasks meanwhile, which spawn more than there are
/// slots. Each such level costs the stack of one task: there were as many levels as slots, 65,536 by default.
#[test]
fn spawning_into_a_full_pool_keeps_to_the_stack() {
    let config = PoolConfig { threads: 1, stack_size: 256 << 10, ..PoolConfig::default() };
    let pool = Arc::new(Pool::with(config).unwrap());
    let ran = Arc::new(AtomicUsize::new(0));
    let (inner, counted) = (Arc::clone(&pool), Arc::clone(&ran));

    let spawner = pool.spawn(move || {
        for _ in 0..100_000 {
            let (inner, pool, counted) = (Arc::clone(&inner), Arc::clone(&inner), Arc::clone(&counted));
            inner.spawn_detached(move || {
                pool.spawn_detached(move || {
                    counted.fetch_add(1, Ordering::Relaxed);
                });
            });
        }
    });

    spawner.wait_blocking();
    pool.wait_idle();
    assert_eq!(ran.load(Ordering::Relaxed), 100_000);
}

/// SC-6: an outside thread that helps while it waits runs tasks that panic: nothing unwinds past the counts, and nothing
/// hangs afterwards.
#[test]
fn panics_inside_the_waits_of_outside_threads_leave_the_counts_right() {
    let config = PoolConfig { threads: 1, panic_hook: Arc::new(|_| ()), ..PoolConfig::default() };
    let pool = Pool::with(config).unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    for round in 1..=200 {
        for number in 0..10 {
            let ran = Arc::clone(&ran);
            pool.spawn_detached(move || {
                ran.fetch_add(1, Ordering::SeqCst);
                assert!(number % 2 == 0);
            });
        }
        pool.wait_until(|| ran.load(Ordering::SeqCst) == 10 * round);
        pool.wait_idle();
    }
    let report = pool.shutdown(Shutdown::Drain, Duration::from_secs(60));
    assert_eq!((report.left, report.queued), (0, 0));
}

/// SC-6: a task that was run at once, because there was no slot, is a task all the same: its panic goes to the hook.
#[test]
fn a_panic_of_a_task_that_had_no_slot_is_told_to_the_hook() {
    let told = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&told);
    let hook = Arc::new(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    let config = PoolConfig { threads: 1, slot_count_max: 1, panic_hook: hook, ..PoolConfig::default() };
    let pool = Pool::unstarted(config).unwrap();
    let only_slot = pool.prepare(|| ());

    pool.spawn_detached(|| panic!("detached"));
    pool.spawn_many([|| panic!("one of many")]);
    drop(pool.spawn(|| panic!("dropped")));
    assert!(pool.spawn(|| panic!("waited for")).wait_result().is_err_and(|error| error.to_string().contains("waited")));

    assert_eq!(told.load(Ordering::SeqCst), 3);
    only_slot.run();
}

/// Whoever prepares tasks faster than they are run can find all slots taken and nothing to run: the tasks are in the hands
/// of others. It said that there were too few slots, in the middle of 100,000 tasks that would have ended.
#[test]
fn a_slot_that_another_thread_is_about_to_free_is_waited_for() {
    let pool = Pool::with(PoolConfig { threads: 1, slot_count_max: 1, ..PoolConfig::default() }).unwrap();
    let (go, wait) = mpsc::channel::<()>();
    let (begun, has_begun) = mpsc::channel();
    pool.spawn_detached(move || {
        begun.send(()).unwrap();
        wait.recv().unwrap();
    });
    has_begun.recv().unwrap();

    let prepared = std::thread::scope(|threads| {
        threads.spawn(move || go.send(()).unwrap());
        pool.prepare(|| 7).run()
    });

    assert_eq!(prepared, 7);
}

/// SC-6: the iterator of `spawn_many` panics in the middle of a batch. Those before it had been counted by the scope, and
/// were never queued: the scope waited for them for ever.
#[test]
fn a_scope_ends_when_the_iterator_of_its_tasks_panics() {
    let pool = pool_of(2);
    for good in [0, 1, 50, 300] {
        let ran = AtomicUsize::new(0);
        let ran = &ran;
        let task = move |_: &Scope<'_>| {
            ran.fetch_add(1, Ordering::SeqCst);
        };
        let tasks = (0..1_000).map(|number| {
            assert!(number < good, "on purpose");
            task
        });

        let outcome = catch_unwind(AssertUnwindSafe(|| pool.scope(|s| s.spawn_many(tasks))));

        assert!(outcome.is_err());
        assert_eq!(ran.load(Ordering::SeqCst), good);
    }
}

/// LZ-2, LZ-12: a tie that fails for want of a slot has tied nothing: it had counted a predecessor that never came.
#[test]
fn a_tie_that_finds_no_slot_leaves_the_tasks_as_they_were() {
    let pool = unstarted_pool_of(3);
    let (first, second, third) = (pool.prepare(|| 1), pool.prepare(|| 2), pool.prepare(|| 3));
    first.finish_with(&third).unwrap();

    assert!(catch_unwind(AssertUnwindSafe(|| first.continue_with(&second))).is_err());
    // A second parent needs a slot, too.
    assert!(catch_unwind(AssertUnwindSafe(|| first.finish_with(&second))).is_err());

    assert_eq!((second.run(), first.run(), third.run()), (2, 1, 3));
}

/// C-1, LZ-12: one thread gives up a wait, another goes on with it. The end of the task may just have read whom to wake,
/// and woke the first one only: the second slept for ever.
#[test]
fn a_wait_given_up_by_one_thread_can_be_gone_on_with_by_another() {
    let pool = Arc::new(pool_of(1));
    let (send, tasks) = mpsc::sync_channel::<Task<u64>>(0);
    let waiter = std::thread::spawn(move || tasks.into_iter().map(Task::wait).sum::<u64>());
    let mut ended = 0;
    for round in 0..20_000 {
        let task = pool.spawn(move || {
            (0..round % 1_000).for_each(|_| std::hint::spin_loop());
            1
        });
        match task.wait_timeout(Duration::from_nanos(1)) {
            Ok(value) => ended += value,
            Err(task) => send.send(task).unwrap(),
        }
    }
    drop(send);
    assert_eq!(ended + waiter.join().unwrap(), 20_000);
}

/// As above, with a future: polled first and then waited for, or the other way round.
#[test]
fn a_task_may_be_polled_and_waited_for_in_any_order() {
    struct Nobody;
    impl Wake for Nobody {
        fn wake(self: Arc<Self>) {}
    }
    let pool = pool_of(1);
    let nobody = Arc::new(Nobody);
    let waker = Waker::from(Arc::clone(&nobody));
    let poll = |task: &mut Task<u32>| std::pin::Pin::new(task).poll(&mut Context::from_waker(&waker));
    for round in 0..10_000 {
        let mut task = pool.spawn(|| 5);
        if round % 2 == 0 {
            task = match task.wait_timeout(Duration::ZERO) {
                Ok(_) => continue,
                Err(task) => task,
            };
        }
        match poll(&mut task) {
            Poll::Ready(value) => assert_eq!(value, 5),
            Poll::Pending => assert_eq!(task.wait(), 5),
        }
    }
    drop(waker);
    assert_eq!(Arc::strong_count(&nobody), 1, "the waker of a task that was waited for is kept");
}

/// A waker's destructor may do anything: here it drops a task that is awaited itself, whose waker is kept beside.
#[test]
fn replacing_a_waker_may_drop_another_awaited_task() {
    #[derive(Default)]
    struct Holder(#[expect(dead_code, reason = "dropped with the waker")] Mutex<Option<Task<()>>>);
    impl Wake for Holder {
        fn wake(self: Arc<Self>) {}
    }
    let poll = |task: &mut Task<()>, waker: &Waker| {
        assert!(std::pin::Pin::new(task).poll(&mut Context::from_waker(waker)).is_pending());
    };
    let pool = unstarted_pool_of(8);
    let (mut inner, mut outer) = (pool.spawn(|| ()), pool.spawn(|| ()));
    poll(&mut inner, &Waker::from(Arc::new(Holder::default())));
    poll(&mut outer, &Waker::from(Arc::new(Holder(Mutex::new(Some(inner))))));

    poll(&mut outer, &Waker::from(Arc::new(Holder::default())));

    outer.wait();
}

/// SC-14, C-6: the system gives no thread, or not all of them: an error, and nothing is left running.
#[cfg(target_os = "linux")]
#[test]
fn a_pool_that_gets_no_threads_says_so_and_runs_elsewhere() {
    let config = PoolConfig { threads: 3, stack_size: 1 << 46, ..PoolConfig::default() };
    assert!(matches!(Pool::with(config.clone()), Err(PoolError::Thread { wanted: 3, .. })));

    let pool = Pool::unstarted(config).unwrap();
    let task = pool.spawn(|| 4);
    assert!(matches!(pool.start(), Err(PoolError::Thread { .. })));

    assert_eq!(task.wait(), 4);
}

/// C-1: a pool is told to stop while its workers are about to sleep, again and again: none of them sleeps through it.
#[test]
fn no_worker_sleeps_through_the_end_of_its_pool() {
    for round in 0..1_500 {
        let pool = pool_of(1 + round % 3);
        if round % 2 == 0 {
            pool.spawn_detached(|| ());
        }
        // So that the end comes at another moment of the workers' way to sleep each time.
        (0..round * 7 % 2_000).for_each(|_| std::hint::spin_loop());
        drop(pool);
    }
}

/// C-2, C-7: spawning while the pool ends is no error and no race: what was accepted is run, or cancelled and told.
#[test]
fn tasks_that_spawn_while_the_pool_ends_lose_nothing() {
    for _ in 0..200 {
        let (spawned, ran) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let pool = pool_of(2);
        pool.scope(|s| {
            s.spawn(|_| {
                for _ in 0..20 {
                    let (spawned, ran) = (Arc::clone(&spawned), Arc::clone(&ran));
                    spawned.fetch_add(1, Ordering::SeqCst);
                    pool.spawn_detached(move || {
                        ran.fetch_add(1, Ordering::SeqCst);
                    });
                }
            });
        });
        drop(pool);
        assert_eq!((spawned.load(Ordering::SeqCst), ran.load(Ordering::SeqCst)), (20, 20));
    }
}

/// C-7: a task that waits for the threads of its own pool to end is told.
#[test]
fn a_task_that_joins_its_own_pool_is_told() {
    let pool = Arc::new(pool_of(1));
    let inner = Arc::clone(&pool);

    let task = pool.spawn(move || inner.join_threads());

    // Not `wait_result`: this thread would run the task, and is no thread of the pool.
    let panic = catch_unwind(AssertUnwindSafe(|| task.wait_blocking())).unwrap_err();
    assert!(panic.downcast_ref::<&str>().is_some_and(|text| text.contains("joins its own pool")));
}

/// C-3: a closure belongs to its task, and is dropped exactly once: run, cancelled, given up, or left in a pool that goes.
#[test]
fn every_closure_is_dropped_once_however_its_task_ends() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let closure = || {
        let counted = Counted(Arc::clone(&dropped));
        move || drop(std::hint::black_box(counted))
    };
    let pool = unstarted_pool_of(64);

    pool.spawn(closure()).wait();
    pool.spawn_detached(closure());
    let cancelled = pool.spawn(closure());
    assert!(cancelled.cancel());
    drop(cancelled);
    drop(pool.prepare(closure()));
    let (first, blocked) = (pool.prepare(closure()), pool.prepare(closure()));
    first.continue_with(&blocked);
    drop(blocked);
    first.schedule_detached();
    pool.spawn_detached(closure());
    let report = pool.shutdown(Shutdown::CancelQueued, Duration::from_secs(60));

    assert_eq!((report.queued, dropped.load(Ordering::SeqCst)), (0, 7));
}
