//! Joins, scopes and loops, whose closures borrow from those that wait for them.

use super::{Ledger, explore, join, pool};
use crate::Pool;
use crate::sync::{Arc, thread};

#[test]
fn tasks_of_a_scope_that_spawn_tasks_are_all_run_before_it_ends() {
    explore(5_000, || {
        let (pool, ledger) = (pool(), Ledger::of(9));

        pool.scope(|s| {
            for task in 0..3 {
                let ledger = &ledger;
                s.spawn(move |s| {
                    s.spawn(move |_| ledger.note(task + 3));
                    ledger.note(task);
                    s.spawn(move |_| ledger.note(task + 6));
                });
            }
        });

        ledger.assert_each_was_run_once();
    });
}

/// The leaves of a tree of joins.
fn leaves(pool: &Pool, ledger: &Ledger, first: usize, count: usize) -> usize {
    if count == 1 {
        return ledger.enter(first);
    }
    let half = count / 2;
    let (left, right) =
        pool.join(|| leaves(pool, ledger, first, half), || leaves(pool, ledger, first + half, count - half));
    left + right
}

#[test]
fn joins_inside_joins_are_stolen_or_not_and_run_once() {
    explore(7_000, || {
        let (pool, ledger) = (pool(), Ledger::of(16));

        let (inner, theirs) = (Arc::clone(&pool), ledger.clone());
        let task = pool.spawn(move || leaves(&inner, &theirs, 8, 8));
        let here = leaves(&pool, &ledger, 0, 8);

        assert_eq!(here + task.wait(), (0..16).sum());
        ledger.assert_each_was_run_once();
    });
}

#[test]
fn several_outside_threads_are_helped_at_the_same_time() {
    explore(4_000, || {
        let (pool, ledger) = (pool(), Ledger::of(12));

        let (inner, theirs) = (Arc::clone(&pool), ledger.clone());
        let other = thread::spawn(move || leaves(&inner, &theirs, 0, 6));
        pool.scope(|s| {
            for task in 6..12 {
                let ledger = &ledger;
                s.spawn(move |_| ledger.note(task));
            }
        });

        assert_eq!(join(other), (0..6).sum());
        ledger.assert_each_was_run_once();
    });
}

#[test]
fn loops_visit_every_index_once() {
    explore(2_800, || {
        let (pool, ledger) = (pool(), Ledger::of(24));

        pool.for_each(0..12, |index| ledger.note(index));
        let sum = pool.map_reduce(12..24, || 0, |index| ledger.enter(index), |left, right| left + right);

        assert_eq!(sum, (12..24).sum());
        ledger.assert_each_was_run_once();
    });
}
