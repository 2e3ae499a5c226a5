//! A worker's own queue: the owner pushes and pops at the bottom, thieves take from the top.
//!
//! The shape is that of Chase and Lev (2005), with a fixed capacity and without fences. It holds numbers, not
//! pointers: a thief that lost a race has read a stale number and throws it away.
//!
//! `top` and `bottom` count up for ever; what lies between them, `bottom - top` entries, is in the ring. They are 64
//! bits wide, so that a thief that sleeps between its look and its exchange cannot meet the same count again.
//!
//! # The one race, and why it is decided
//! The owner takes the entry below `bottom`, a thief the one at `top`. They can want the same entry only when it is
//! the last. The owner first lowers `bottom`, then looks at `top`; a thief first looks at `top`, then at `bottom`.
//! One of them must see the other, or both take it.
//!
//! | | step | |
//! |---|---|---|
//! | O1 | owner: `bottom = b` (was `b + 1`) | plain store |
//! | O2 | owner: `t = top`, by a read-modify-write that changes nothing | AcqRel |
//! | T1 | thief: `t' = top` | Acquire |
//! | T2 | thief: `b' = bottom`; gives up unless `t' < b'` | Acquire |
//! | T3 | thief: `top: t' → t' + 1`, if it is still `t'` | AcqRel |
//!
//! Every change of `top` is a read-modify-write, and so is O2: they stand in one order, and each passes on what the
//! one before it released. If the owner saw `t < b` in O2 and takes entry `b` without further ado, then a thief that
//! could take `b` must have read `top = b` in T1, a value written after O2 in that order. So T1 acquires what O2
//! released, which includes O1, and T2 sees `bottom ≤ b`: the thief gives up. If the owner saw `t = b`, it competes
//! for the entry by the same exchange as the thieves, and one of them wins.
//!
//! The loom model is `loom_tests/ring.rs`; its control replaces O2 by a plain load, and must fail.

use crate::sync::{AtomicU64, Ordering};

/// Entries of a worker's ring.
#[cfg(not(loom))]
pub(crate) const RING_LEN: usize = 256;
#[cfg(loom)]
pub(crate) const RING_LEN: usize = 2;

const _: () = assert!(RING_LEN.is_power_of_two());

/// What a thief gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Steal {
    /// An entry.
    Got(u64),
    /// There was nothing.
    Empty,
    /// Somebody else was faster; there may be more.
    Lost,
}

/// A bounded queue with one owner and any number of thieves.
#[derive(Debug)]
pub(crate) struct Ring {
    /// The oldest entry. Changed by whoever takes it; read by all.
    top: AtomicU64,
    /// One past the youngest entry. Changed by the owner; read by all.
    bottom: AtomicU64,
    entries: Box<[AtomicU64]>,
}

impl Ring {
    pub(crate) fn new() -> Ring {
        Ring::starting_at(0)
    }

    /// A ring whose counts begin at `start`; tests begin near their end.
    pub(crate) fn starting_at(start: u64) -> Ring {
        let entries = (0..RING_LEN).map(|_| AtomicU64::new(0)).collect();
        Ring { top: AtomicU64::new(start), bottom: AtomicU64::new(start), entries }
    }

    fn entry(&self, count: u64) -> &AtomicU64 {
        &self.entries[count as usize & (RING_LEN - 1)]
    }

    /// Adds an entry, or gives it back when the ring is full. Owner only.
    pub(crate) fn push(&self, value: u64) -> Result<(), u64> {
        // ORDER: Relaxed; only this thread writes `bottom`.
        let bottom = self.bottom.load(Ordering::Relaxed);
        // ORDER: Acquire; pairs with the exchange in `steal`: its entry was read before it moved `top`, so the place
        // may be written again.
        let top = self.top.load(Ordering::Acquire);
        if bottom.wrapping_sub(top) >= RING_LEN as u64 {
            return Err(value);
        }
        // ORDER: Relaxed; published by the store of `bottom`.
        self.entry(bottom).store(value, Ordering::Relaxed);
        // ORDER: Release; pairs with the load of `bottom` in `steal`. Publishes the entry, and what the task needs.
        self.bottom.store(bottom.wrapping_add(1), Ordering::Release);
        Ok(())
    }

    /// Takes the youngest entry. Owner only.
    pub(crate) fn pop(&self) -> Option<u64> {
        // ORDER: Relaxed; only this thread writes `bottom`.
        let after = self.bottom.load(Ordering::Relaxed);
        // Most pops find nothing (a worker looks here before it looks elsewhere): two loads answer that. `top` may be
        // older than it seems, never newer, so an empty ring is never missed; a full look decides the rest.
        if after == self.top.load(Ordering::Relaxed) {
            return None;
        }
        let bottom = after.wrapping_sub(1);
        // ORDER: Relaxed; O1. Made visible by O2.
        self.bottom.store(bottom, Ordering::Relaxed);
        let top = self.look_at_top();
        // ORDER: Relaxed; this thread wrote the entry.
        let value = self.entry(bottom).load(Ordering::Relaxed);
        if top == bottom {
            // The last entry: whoever moves `top` has it.
            // ORDER: AcqRel as in T3; on failure a thief was faster, and nothing is read that it published.
            let won = self.top.compare_exchange(top, top.wrapping_add(1), Ordering::AcqRel, Ordering::Relaxed);
            // ORDER: Relaxed; the ring is empty either way, and `top` says so.
            self.bottom.store(after, Ordering::Relaxed);
            return won.ok().map(|_| value);
        }
        if top == after {
            // A thief took the last entry between the first look and the second.
            self.bottom.store(after, Ordering::Relaxed);
            return None;
        }
        Some(value)
    }

    /// O2.
    #[cfg(not(windlass_weaken = "ring"))]
    fn look_at_top(&self) -> u64 {
        // ORDER: AcqRel; takes its place in the order of the changes of `top`, and passes O1 on to every thief that
        // comes after it (T1, T3).
        self.top.fetch_add(0, Ordering::AcqRel)
    }

    /// The control of the model: without its place in the order, owner and thief can miss each other.
    #[cfg(windlass_weaken = "ring")]
    fn look_at_top(&self) -> u64 {
        self.top.load(Ordering::Relaxed)
    }

    /// Takes the youngest entry if it is `value`. Owner only.
    pub(crate) fn pop_if(&self, value: u64) -> bool {
        // ORDER: Relaxed; only this thread writes `bottom` and the entries.
        let after = self.bottom.load(Ordering::Relaxed);
        if after == self.top.load(Ordering::Relaxed) {
            return false;
        }
        self.entry(after.wrapping_sub(1)).load(Ordering::Relaxed) == value && self.pop() == Some(value)
    }

    /// Takes the oldest entry. Anybody.
    pub(crate) fn steal(&self) -> Steal {
        // ORDER: Acquire; T1, pairs with O2 and with the exchanges of other thieves.
        let top = self.top.load(Ordering::Acquire);
        // ORDER: Acquire; T2, pairs with the store in `push`: the entry is there, and what the task needs.
        let bottom = self.bottom.load(Ordering::Acquire);
        // Both counts wrap together; less than a ring's length lies between them.
        if (bottom.wrapping_sub(top) as i64) <= 0 {
            return Steal::Empty;
        }
        // ORDER: Relaxed; if the place has been written again meanwhile, `top` has moved and T3 fails.
        let value = self.entry(top).load(Ordering::Relaxed);
        // ORDER: AcqRel; T3. Release: the place may be written again (pairs with `push`). Acquire and Release keep the
        // order of the changes of `top` unbroken.
        match self.top.compare_exchange(top, top.wrapping_add(1), Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => Steal::Got(value),
            Err(_) => Steal::Lost,
        }
    }

    /// Whether there seems to be nothing. A hint.
    pub(crate) fn is_empty(&self) -> bool {
        let top = self.top.load(Ordering::Acquire);
        (self.bottom.load(Ordering::Acquire).wrapping_sub(top) as i64) <= 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_owner_takes_the_youngest_and_a_thief_the_oldest() {
        let ring = Ring::new();
        for value in 1..=3 {
            ring.push(value).unwrap();
        }

        assert_eq!(ring.pop(), Some(3));
        assert_eq!(ring.steal(), Steal::Got(1));
        assert_eq!(ring.pop(), Some(2));
        assert_eq!((ring.pop(), ring.steal()), (None, Steal::Empty));
    }

    #[test]
    fn a_full_ring_gives_the_entry_back() {
        let ring = Ring::new();
        for value in 0..RING_LEN as u64 {
            ring.push(value).unwrap();
        }

        assert_eq!(ring.push(7), Err(7));
        assert_eq!(ring.steal(), Steal::Got(0));
        assert_eq!(ring.push(7), Ok(()));
    }

    /// LZ-8, SC-12, C-4: counts that wrap must not lose or repeat an entry.
    #[test]
    fn counts_that_wrap_lose_nothing() {
        let ring = Ring::starting_at(u64::MAX - 3);
        for round in 0..1_000 {
            ring.push(round).unwrap();
            ring.push(round + 1_000_000).unwrap();
            assert_eq!(ring.steal(), Steal::Got(round));
            assert_eq!(ring.pop(), Some(round + 1_000_000));
            assert!(ring.is_empty());
        }
    }

    #[test]
    fn only_the_expected_entry_is_popped() {
        let ring = Ring::new();
        ring.push(1).unwrap();
        ring.push(2).unwrap();

        assert!(!ring.pop_if(1));
        assert!(ring.pop_if(2));
        assert!(ring.pop_if(1));
        assert!(!ring.pop_if(1));
    }
}
