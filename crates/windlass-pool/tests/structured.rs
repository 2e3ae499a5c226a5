//! Joins, scopes and loops, beyond what `pool.rs` says of them.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use windlass_pool::{Lane, Pool, PoolConfig};

fn pool_of(threads: usize) -> Pool {
    Pool::with(PoolConfig { threads, ..PoolConfig::default() }).unwrap()
}

#[test]
fn a_recursion_deeper_than_the_room_for_forks_is_run_all_the_same() {
    fn count(lane: &Lane, depth: u64) -> u64 {
        if depth == 0 {
            return 0;
        }
        let (deeper, one) = lane.join(|lane| count(lane, depth - 1), |_| 1);
        deeper + one
    }
    let pool = pool_of(2);
    assert_eq!(pool.attach(|lane| count(lane, 2_000)), 2_000);
}

/// Every leaf of many unbalanced trees is visited once, with thieves at work.
#[test]
fn stolen_forks_are_run_once() {
    fn visit(lane: &Lane, seen: &[AtomicUsize], at: usize, step: usize) {
        if step == 0 {
            seen[at].fetch_add(1, Ordering::Relaxed);
            if at.is_multiple_of(97) {
                std::thread::yield_now();
            }
            return;
        }
        lane.join(|lane| visit(lane, seen, at, step / 2), |lane| visit(lane, seen, at + step, step / 2));
    }
    let pool = pool_of(4);
    for _ in 0..50 {
        let seen: Vec<AtomicUsize> = (0..4_096).map(|_| AtomicUsize::new(0)).collect();
        pool.attach(|lane| visit(lane, &seen, 0, 2_048));
        assert!(seen.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    }
}

#[test]
fn a_panic_in_either_half_leaves_no_fork_behind() {
    let pool = pool_of(3);
    for round in 0..2_000 {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            pool.join(
                || pool.join(|| assert_ne!(round % 3, 0), || assert_ne!(round % 3, 1)),
                || pool.join(|| (), || assert_ne!(round % 5, 0)),
            )
        }));
        assert_eq!(outcome.is_err(), round % 3 < 2 || round % 5 == 0);
    }
    assert_eq!(pool.join(|| 1, || 2), (1, 2));
}

/// Tasks of a scope may wait for each other by means of their own, if there are threads enough: none of them is kept
/// where only a blocked thread could reach it.
#[test]
fn tasks_of_a_scope_that_need_each_other_run_at_the_same_time() {
    let pool = pool_of(3);
    for _ in 0..300 {
        let barrier = Barrier::new(3);
        pool.scope(|s| {
            for _ in 0..3 {
                s.spawn(|_| {
                    barrier.wait();
                });
            }
        });
    }
}

#[test]
fn many_tasks_can_be_spawned_into_a_scope_at_once() {
    let pool = pool_of(2);
    let total = AtomicU64::new(0);
    let total = &total;
    pool.scope(|s| {
        s.spawn_many((0..10_000_u64).map(|number| {
            move |_: &windlass_pool::Scope<'_>| {
                total.fetch_add(number, Ordering::Relaxed);
            }
        }));
    });
    assert_eq!(total.load(Ordering::Relaxed), 49_995_000);
}

#[test]
fn a_cancelled_scope_runs_nothing_that_had_not_begun() {
    let pool = Pool::unstarted(PoolConfig { threads: 1, ..PoolConfig::default() }).unwrap();
    let count = AtomicUsize::new(0);
    pool.scope(|s| {
        for _ in 0..100 {
            s.spawn(|_| {
                count.fetch_add(1, Ordering::Relaxed);
            });
        }
        s.cancel();
        assert!(s.is_cancelled());
    });
    assert_eq!(count.load(Ordering::Relaxed), 0);
}

#[test]
fn a_loop_visits_every_index_once() {
    let pool = pool_of(4);
    for len in [0, 1, 2, 3, 1_000, 100_000] {
        let seen: Vec<AtomicBool> = (0..len).map(|_| AtomicBool::new(false)).collect();
        pool.for_each(0..len, |index| assert!(!seen[index].swap(true, Ordering::Relaxed)));
        assert!(seen.iter().all(|seen| seen.load(Ordering::Relaxed)));
    }
}

#[test]
fn a_loop_over_a_slice_changes_every_item() {
    let pool = pool_of(3);
    let mut numbers: Vec<u64> = (0..50_000).collect();
    pool.for_each_mut(&mut numbers, |number| *number *= 2);
    assert!(numbers.iter().zip(0..).all(|(number, index)| *number == index * 2));

    pool.for_each_chunk(&mut numbers, 7, |chunk, items| items.fill(chunk as u64));
    assert!(numbers.iter().enumerate().all(|(index, number)| *number == index as u64 / 7));
}

#[test]
fn a_reduction_keeps_the_order() {
    let pool = pool_of(4);
    let text = pool.map_reduce(0..5_000, String::new, |index| format!("{index},"), |a, b| a + &b);
    let expected: String = (0..5_000).map(|index| format!("{index},")).collect();
    assert_eq!(text, expected);
}

#[test]
fn a_loop_throws_the_panic_of_its_body() {
    let pool = pool_of(3);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        pool.for_each(0..10_000, |index| assert_ne!(index, 5_000, "this one"));
    }));
    assert!(outcome.is_err());
    pool.for_each(0..100, |_| ());
}

#[test]
fn a_loop_with_a_dear_item_does_not_keep_the_others_waiting() {
    let pool = pool_of(2);
    let others = AtomicUsize::new(0);
    // The first item ends only when all others have: somebody else must have taken them.
    pool.for_each(0..64, |index| {
        if index == 0 {
            while others.load(Ordering::SeqCst) < 31 {
                std::thread::yield_now();
            }
        } else {
            others.fetch_add(1, Ordering::SeqCst);
        }
    });
    assert_eq!(others.load(Ordering::SeqCst), 63);
}
