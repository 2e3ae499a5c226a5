//! One task at a time, on the threads that wait, in an order that follows from a seed.
//!
//! A pool with a seed starts no threads and keeps its queued tasks in one list. Whoever waits takes one of them, drawn
//! by the seed, until what it waits for has come. The same program with the same seed does the same in the same order,
//! as long as one thread uses the pool; another seed tries another order.

use crate::slot::SlotRef;
use crate::sync::{Mutex, lock};

pub(crate) struct Queue(Mutex<Drawing>);

struct Drawing {
    random: u64,
    slots: Vec<SlotRef>,
}

impl Queue {
    pub(crate) fn new(seed: u64) -> Queue {
        Queue(Mutex::new(Drawing { random: seed, slots: Vec::new() }))
    }

    pub(crate) fn push(&self, slot: SlotRef) {
        lock(&self.0).slots.push(slot);
    }

    /// Takes one of them.
    pub(crate) fn pop(&self) -> Option<SlotRef> {
        let mut drawing = lock(&self.0);
        let count = drawing.slots.len() as u64;
        if count == 0 {
            return None;
        }
        let place = drawing.draw() % count;
        Some(drawing.slots.swap_remove(place as usize))
    }

    /// Whether the second half of a join goes first.
    pub(crate) fn is_second_first(&self) -> bool {
        lock(&self.0).draw().is_multiple_of(2)
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.0).slots.len()
    }
}

impl Drawing {
    /// SplitMix64 (Steele, Lea and Flood 2014): every seed gives a good sequence, zero too.
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}
