//! The owner's pop against thieves: every entry is taken exactly once.

use loom::thread;

use crate::ring::{Ring, Steal};
use crate::sync::Arc;

fn steal_one(ring: &Ring) -> Option<u64> {
    match ring.steal() {
        Steal::Got(value) => Some(value),
        Steal::Empty | Steal::Lost => None,
    }
}

/// Pushes `count` entries, has two thieves steal once each while the owner pops everything, and sums up.
fn race(count: u64, start: u64) {
    loom::model(move || {
        let ring = Arc::new(Ring::starting_at(start));
        for value in 1..=count {
            ring.push(value).unwrap();
        }
        let thief = || {
            let ring = Arc::clone(&ring);
            thread::spawn(move || steal_one(&ring))
        };
        let (one, two) = (thief(), thief());
        let mut taken: Vec<u64> = std::iter::from_fn(|| ring.pop()).collect();
        taken.extend(one.join().unwrap());
        taken.extend(two.join().unwrap());
        // A lost race may leave an entry behind for the owner.
        taken.extend(std::iter::from_fn(|| ring.pop()));
        taken.sort_unstable();
        assert_eq!(taken, (1..=count).collect::<Vec<_>>());
    });
}

#[test]
fn ring_the_last_entry_is_taken_once() {
    race(1, 0);
}

#[test]
fn ring_two_entries_are_taken_once_each() {
    race(2, 0);
}

#[test]
fn ring_entries_are_taken_once_across_the_wrap() {
    race(2, u64::MAX);
}

/// A place is written again only after the thief that emptied it has read it.
#[test]
fn ring_a_place_is_used_again_without_losing_an_entry() {
    loom::model(|| {
        let ring = Arc::new(Ring::new());
        ring.push(1).unwrap();
        ring.push(2).unwrap();
        let thief = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || steal_one(&ring))
        };
        let refused = ring.push(3).err();
        let mut taken: Vec<u64> = refused.into_iter().chain(std::iter::from_fn(|| ring.pop())).collect();
        taken.extend(thief.join().unwrap());
        taken.extend(std::iter::from_fn(|| ring.pop()));
        taken.sort_unstable();
        assert_eq!(taken, [1, 2, 3]);
    });
}
