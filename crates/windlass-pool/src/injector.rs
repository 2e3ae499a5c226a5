//! Queues that belong to no thread: for tasks that are not of the normal priority, and for those that a thread leaves
//! behind when it goes.
//!
//! One list behind a lock for each priority, first in, first out. Most tasks never come here; a worker looks at a count
//! and takes the lock only if there is something. It needs no bound of its own: each entry is a slot, and slots are
//! bounded.

use std::collections::VecDeque;

use crate::sleep::Bell;
use crate::slot::{Priority, SlotRef};
use crate::sync::{AtomicUsize, Mutex, Ordering, Padded, lock};

#[derive(Debug)]
pub(crate) struct Injector {
    levels: [Padded<Level>; 3],
    /// Rung after each push (sleep.rs, P2).
    pub(crate) bell: Padded<Bell>,
}

#[derive(Debug)]
struct Level {
    /// How many entries there are. Written under the lock; read without it, as a hint.
    len: AtomicUsize,
    queue: Mutex<VecDeque<SlotRef>>,
}

impl Injector {
    pub(crate) fn new() -> Injector {
        let level = || Padded(Level { len: AtomicUsize::new(0), queue: Mutex::new(VecDeque::new()) });
        Injector { levels: [level(), level(), level()], bell: Padded(Bell::default()) }
    }

    fn level(&self, priority: Priority) -> &Level {
        &self.levels[match priority {
            Priority::High => 0,
            Priority::Normal => 1,
            Priority::Low => 2,
        }]
    }

    pub(crate) fn push(&self, priority: Priority, slots: impl Iterator<Item = SlotRef>) {
        let level = self.level(priority);
        let mut queue = lock(&level.queue);
        queue.extend(slots);
        // ORDER: Release; pairs with the load in `pop`: who sees the count may as well find the entry.
        level.len.store(queue.len(), Ordering::Release);
    }

    /// Takes the oldest entry of a priority.
    pub(crate) fn pop(&self, priority: Priority) -> Option<SlotRef> {
        let level = self.level(priority);
        // ORDER: Acquire; pairs with the stores under the lock. Idle workers look here often and must not take the lock
        // for nothing. A miss is caught by the look that follows the passing of the bell (sleep.rs, S3).
        if level.len.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut queue = lock(&level.queue);
        let slot = queue.pop_front();
        level.len.store(queue.len(), Ordering::Release);
        slot
    }

    /// How many there seem to be. A hint, ordered like `pop`.
    pub(crate) fn len(&self) -> usize {
        // ORDER: Acquire; as in `pop`.
        self.levels.iter().map(|level| level.len.load(Ordering::Acquire)).sum()
    }
}
