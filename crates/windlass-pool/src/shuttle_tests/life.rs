//! Pools that end while they are used, and threads that come and go.

use std::time::Duration;

use super::{Ledger, config, explore, join, pool};
use crate::sync::{Arc, AtomicU32, Ordering, thread};
use crate::{Pool, PoolConfig, Shutdown, ShutdownReport, Task, TaskError, blocking};

/// Longer than any schedule.
const LONG: Duration = Duration::from_secs(3_600);

/// Two threads spawn tasks; each has a continuation that is scheduled only when it runs, whatever has become of the
/// pool. Whoever is the last to have the pool shuts it down while what was spawned is under way. Answers the report and
/// the handles, in the order of their tasks.
fn shut_down_under_way(mode: Shutdown, ledger: &Ledger) -> (ShutdownReport, Vec<Task<usize>>) {
    let pool = pool();
    let threads: Vec<_> = (0..2)
        .map(|thread| {
            let (pool, ledger) = (Arc::clone(&pool), ledger.clone());
            thread::spawn(move || {
                let mut tasks = Vec::new();
                for task in [4 * thread, 4 * thread + 2] {
                    let (first, second) = (ledger.clone(), ledger.clone());
                    let next = pool.prepare(move || second.enter(task + 1));
                    let run = move || {
                        first.note(task);
                        next.schedule_detached();
                        task
                    };
                    tasks.push(pool.spawn(run));
                }
                (Arc::into_inner(pool).map(|pool| pool.shutdown(mode, LONG)), tasks)
            })
        })
        .collect();
    let mut report = Arc::into_inner(pool).map(|pool| pool.shutdown(mode, LONG));
    let mut handles = Vec::new();
    for thread in threads {
        let (theirs, tasks) = join(thread);
        report = report.or(theirs);
        handles.extend(tasks);
    }
    (report.expect("somebody was the last"), handles)
}

#[test]
fn a_pool_that_drains_runs_everything_that_was_spawned_by_whomever() {
    explore(7_000, || {
        let ledger = Ledger::of(8);

        let (report, tasks) = shut_down_under_way(Shutdown::Drain, &ledger);

        assert_eq!((report.left, report.queued), (0, 0));
        ledger.assert_each_was_run_once();
        assert_eq!(tasks.into_iter().map(Task::wait).sum::<usize>(), 12);
    });
}

#[test]
fn a_pool_that_cancels_runs_a_task_or_says_that_it_did_not() {
    explore(5_000, || {
        let ledger = Ledger::of(8);

        let (report, tasks) = shut_down_under_way(Shutdown::CancelQueued, &ledger);

        assert_eq!((report.left, report.queued), (0, 0));
        for (task, handle) in (0..).step_by(2).zip(tasks) {
            let runs = match handle.wait_result() {
                Ok(value) => {
                    assert_eq!(value, task);
                    1
                }
                Err(TaskError::Cancelled) => 0,
                Err(TaskError::Panicked(_)) => unreachable!("no task panics"),
            };
            assert_eq!(ledger.count(task), runs);
            assert!(ledger.count(task + 1) <= runs);
        }
    });
}

#[test]
fn what_outside_threads_leave_behind_is_run() {
    explore(7_000, || {
        let (pool, ledger) = (pool(), Ledger::of(9));

        // The later ones are given the desks of the earlier ones, and the last may be the one that ends the pool.
        let mut others = Vec::new();
        for round in 0..3 {
            let (theirs, ledger) = (Arc::clone(&pool), ledger.clone());
            others.push(thread::spawn(move || {
                for task in 3 * round..3 * round + 3 {
                    let ledger = ledger.clone();
                    theirs.spawn_detached(move || ledger.note(task));
                }
            }));
            if round == 1 {
                join(others.remove(0));
            }
        }
        drop(pool);

        others.into_iter().for_each(join);
        ledger.assert_each_was_run_once();
    });
}

#[test]
fn a_pool_that_is_idle_has_run_what_its_tasks_have_spawned() {
    explore(5_000, || {
        let (pool, ledger) = (pool(), Ledger::of(7));

        spawn_tree(&pool, &ledger, 0);
        let (theirs, books) = (Arc::clone(&pool), ledger.clone());
        let other = thread::spawn(move || {
            theirs.spawn(move || books.enter(6)).wait();
            theirs.wait_idle();
        });
        pool.wait_idle();

        assert_eq!((0..6).map(|task| ledger.count(task)).sum::<u32>(), 6);
        join(other);
        ledger.assert_each_was_run_once();
    });
}

/// Tasks 0 to 5, each spawned by one before it.
fn spawn_tree(pool: &Arc<Pool>, ledger: &Ledger, task: usize) {
    if task < 6 {
        let (inner, ledger) = (Arc::clone(pool), ledger.clone());
        pool.spawn_detached(move || {
            spawn_tree(&inner, &ledger, 2 * task + 1);
            spawn_tree(&inner, &ledger, 2 * task + 2);
            ledger.note(task);
        });
    }
}

#[test]
fn what_others_make_true_is_seen_by_who_waits_for_it() {
    explore(2_800, || {
        let (pool, ledger) = (pool(), Ledger::of(3));

        for task in 0..3 {
            let ledger = ledger.clone();
            pool.spawn_detached(move || ledger.note(task));
        }
        pool.wait_until(|| (0..3).all(|task| ledger.count(task) == 1));

        ledger.assert_each_was_run_once();
    });
}

#[test]
fn a_stopped_pool_keeps_its_tasks_for_the_next_start() {
    explore(2_800, || {
        let (pool, ledger) = (pool(), Ledger::of(4));

        let mut tasks = Vec::new();
        for task in 0..4 {
            let ledger = ledger.clone();
            tasks.push(pool.spawn(move || ledger.enter(task)));
            if task == 1 {
                pool.stop();
            }
        }
        pool.join_threads();
        pool.start().unwrap();

        assert_eq!(tasks.into_iter().map(Task::wait_blocking).sum::<usize>(), 6);
        ledger.assert_each_was_run_once();
    });
}

#[test]
fn while_all_workers_block_spare_threads_take_their_place() {
    explore(2_800, || {
        let ledger = Ledger::of(4);
        let pool = Arc::new(Pool::with(PoolConfig { spare_threads_max: 4, ..config() }).unwrap());
        let inside = Arc::new(AtomicU32::new(0));

        // All must be inside at once, which is one more than there are workers.
        let tasks: Vec<Task<usize>> = (0..4)
            .map(|task| {
                let (ledger, inside) = (ledger.clone(), Arc::clone(&inside));
                pool.spawn(move || {
                    blocking(|| {
                        inside.fetch_add(1, Ordering::AcqRel);
                        while inside.load(Ordering::Acquire) < 4 {
                            thread::yield_now();
                        }
                    });
                    ledger.enter(task)
                })
            })
            .collect();

        assert_eq!(tasks.into_iter().map(Task::wait_blocking).sum::<usize>(), 6);
        ledger.assert_each_was_run_once();
    });
}
