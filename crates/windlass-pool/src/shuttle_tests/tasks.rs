//! Tasks: spawned, waited for, cancelled, tied to each other.

use std::time::Duration;

use super::{Ledger, config, explore, join, pool};
use crate::sync::{Arc, thread};
use crate::{CancelToken, Pool, PoolConfig, Prepared, Priority, Task, TaskError, TaskOptions};

#[test]
fn tasks_spawned_outside_and_inside_are_run_once_and_waited_for() {
    explore(5_000, || {
        let (pool, ledger) = (pool(), Ledger::of(6));

        let tasks: Vec<Task<usize>> = (0..3)
            .map(|task| {
                let (inner, ledger) = (Arc::clone(&pool), ledger.clone());
                pool.spawn(move || {
                    ledger.note(task);
                    let child = inner.spawn(move || ledger.enter(task + 3));
                    child.wait() - 3
                })
            })
            .collect();
        let sum: usize = tasks.into_iter().map(Task::wait).sum();

        assert_eq!(sum, 3);
        ledger.assert_each_was_run_once();
    });
}

#[test]
fn who_only_sleeps_while_it_waits_is_woken() {
    explore(5_000, || {
        let (pool, ledger) = (pool(), Ledger::of(6));

        for round in 0..2 {
            let (patient, hasty) = (ledger.clone(), ledger.clone());
            assert_eq!(pool.spawn(move || patient.enter(3 * round)).wait_blocking(), 3 * round);
            let task = pool.spawn(move || hasty.enter(3 * round + 1));
            // Time is a matter of chance: it may be over before the task has ended.
            let value = task.wait_timeout(Duration::from_micros(40)).unwrap_or_else(Task::wait_blocking);
            assert_eq!(value, 3 * round + 1);
            ledger.note(3 * round + 2);
        }

        ledger.assert_each_was_run_once();
    });
}

#[test]
fn more_tasks_than_slots_are_all_run() {
    explore(4_000, || {
        let ledger = Ledger::of(12);
        let pool = Arc::new(Pool::with(PoolConfig { slot_count_max: 3, ..config() }).unwrap());

        let threads: Vec<_> = (0..2)
            .map(|thread| {
                let (pool, ledger) = (Arc::clone(&pool), ledger.clone());
                thread::spawn(move || {
                    let spawn = |task| {
                        let ledger = ledger.clone();
                        pool.spawn(move || ledger.enter(task))
                    };
                    let tasks: Vec<Task<usize>> = (6 * thread..6 * thread + 6).map(spawn).collect();
                    tasks.into_iter().map(Task::wait).sum::<usize>()
                })
            })
            .collect();

        assert_eq!(threads.into_iter().map(join).sum::<usize>(), (0..12).sum());
        ledger.assert_each_was_run_once();
    });
}

#[test]
fn a_task_is_either_cancelled_or_run() {
    explore(5_000, || {
        let (pool, ledger) = (pool(), Ledger::of(6));
        let token = CancelToken::new();

        let tasks: Vec<Task<usize>> = (0..6)
            .map(|task| {
                let ledger = ledger.clone();
                let cancel = (task >= 4).then(|| token.clone());
                let options = TaskOptions { cancel, ..TaskOptions::default() };
                pool.prepare_with(options, move || ledger.enter(task)).schedule()
            })
            .collect();
        let canceller = thread::spawn(move || token.cancel());
        let mut is_cancelled: Vec<bool> = tasks[..3].iter().map(Task::cancel).collect();
        is_cancelled.resize(tasks.len(), false);

        for (task, handle) in tasks.into_iter().enumerate() {
            match handle.wait_result() {
                Ok(value) => assert_eq!((value, ledger.count(task), is_cancelled[task]), (task, 1, false)),
                Err(TaskError::Cancelled) => {
                    assert_eq!(ledger.count(task), 0);
                    assert!(is_cancelled[task] || task >= 4);
                }
                Err(TaskError::Panicked(_)) => unreachable!("no task panics"),
            }
        }
        join(canceller);
    });
}

#[test]
fn a_continuation_runs_after_all_it_follows_even_if_they_end_meanwhile() {
    explore(5_000, || {
        let (pool, ledger) = (pool(), Ledger::of(6));
        let node = |task: usize, after: [usize; 2]| {
            let ledger = ledger.clone();
            move || {
                ledger.note(task);
                after.iter().all(|before| ledger.count(*before) == 1)
            }
        };

        // 0 and 1 may be running, or have ended, when the others are tied to them.
        let (first, second) = (pool.spawn(node(0, [0, 0])), pool.spawn(node(1, [1, 1])));
        let both = pool.prepare(node(2, [0, 1]));
        let third = pool.prepare(node(3, [0, 2]));
        let last = pool.prepare(node(4, [2, 3]));
        first.continue_with(&both);
        second.continue_with(&both);
        both.continue_with(&third);
        third.continue_with(&last);
        let (third, last) = (third.schedule(), last.schedule());
        let tail = pool.prepare(node(5, [3, 2]));
        third.continue_with(&tail);
        tail.schedule_detached();
        both.schedule_detached();

        assert!(last.wait() && third.wait() && first.wait() && second.wait());
        pool.wait_idle();
        ledger.assert_each_was_run_once();
    });
}

#[test]
fn a_parent_ends_after_children_that_other_threads_have_tied_to_it() {
    explore(5_000, || {
        let (pool, ledger) = (pool(), Ledger::of(5));
        let job = |task: usize| {
            let ledger = ledger.clone();
            move || ledger.enter(task)
        };

        let (parent, other) = (pool.prepare(job(0)), pool.prepare(job(1)));
        let children: Vec<Prepared<usize>> = (2..5).map(|task| pool.prepare(job(task))).collect();
        children.iter().for_each(|child| child.finish_with(&parent).unwrap());
        children[0].finish_with(&other).unwrap();
        let other = other.schedule();
        let scheduler = thread::spawn(move || children.into_iter().for_each(Prepared::schedule_detached));

        assert_eq!(parent.schedule().wait(), 0);
        // All that the parent has waited for.
        assert_eq!([0, 2, 3, 4].map(|task| ledger.count(task)), [1; 4]);
        assert_eq!(other.wait(), 1);
        join(scheduler);
        ledger.assert_each_was_run_once();
    });
}

#[test]
fn tasks_of_every_priority_are_run() {
    explore(2_800, || {
        let (pool, ledger) = (pool(), Ledger::of(9));
        let priorities = [Priority::Low, Priority::Normal, Priority::High];

        let tasks: Vec<Task<usize>> = (0..6)
            .map(|task| {
                let (inner, ledger) = (Arc::clone(&pool), ledger.clone());
                let options = TaskOptions { priority: priorities[task % 3], ..TaskOptions::default() };
                let run = move || {
                    if task < 3 {
                        // What a low task spawns may be high.
                        let options = TaskOptions { priority: priorities[2 - task], ..TaskOptions::default() };
                        let ledger = ledger.clone();
                        inner.prepare_with(options, move || ledger.enter(task + 6)).schedule_detached();
                    }
                    ledger.enter(task)
                };
                pool.prepare_with(options, run).schedule()
            })
            .collect();

        assert_eq!(tasks.into_iter().map(Task::wait_blocking).sum::<usize>(), (0..6).sum());
        pool.wait_idle();
        ledger.assert_each_was_run_once();
    });
}

#[test]
fn handles_dropped_and_waited_for_on_other_threads_outlive_the_pool() {
    explore(4_000, || {
        let (pool, ledger) = (pool(), Ledger::of(6));

        let mut tasks: Vec<Task<usize>> = (0..6)
            .map(|task| {
                let ledger = ledger.clone();
                pool.spawn(move || ledger.enter(task))
            })
            .collect();
        let theirs = tasks.split_off(3);
        let other = thread::spawn(move || {
            let mut theirs = theirs.into_iter();
            drop(theirs.next());
            theirs.map(Task::wait).sum::<usize>()
        });
        drop(tasks.pop());
        // Runs what is queued, and then joins the threads.
        drop(pool);

        assert_eq!(tasks.into_iter().map(Task::wait).sum::<usize>(), 1);
        assert_eq!(join(other), 9);
        ledger.assert_each_was_run_once();
    });
}
