//! The door for threads that are not workers: one queue, first in, first out.
//!
//! It is a list behind a lock: strangers come seldom, and a worker comes here only when it has nothing of its own, or
//! every so often for fairness. It needs no bound of its own: each entry is the id of a task in a slot, and slots are
//! bounded. When it is closed, nothing more is let in; what is inside is still taken out.

use std::collections::VecDeque;

use crate::sync::{AtomicUsize, Mutex, Ordering, lock};

#[derive(Debug)]
pub(crate) struct Injector {
    entries: Mutex<Entries>,
    /// How many entries there are. Written under the lock; read without it, as a hint.
    len: AtomicUsize,
}

#[derive(Debug, Default)]
struct Entries {
    queue: VecDeque<u64>,
    is_closed: bool,
}

impl Injector {
    pub(crate) fn new() -> Injector {
        Injector { entries: Mutex::new(Entries::default()), len: AtomicUsize::new(0) }
    }

    /// Lets an entry in, or gives it back when the door is closed.
    pub(crate) fn inject(&self, value: u64) -> Result<(), u64> {
        let mut entries = lock(&self.entries);
        if entries.is_closed {
            return Err(value);
        }
        entries.queue.push_back(value);
        // ORDER: Release; pairs with the load in `take`: who sees the count may as well find the entry.
        self.len.store(entries.queue.len(), Ordering::Release);
        Ok(())
    }

    /// Takes the oldest entry, and says whether there are more.
    pub(crate) fn take(&self) -> Option<(u64, bool)> {
        // ORDER: Acquire; pairs with the stores under the lock. Idle workers look here often and must not take the
        // lock for nothing. A miss is caught by the sleep protocol's second look, which follows an acquire of the
        // sleep word that the injecting thread has released after its store.
        if self.len.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut entries = lock(&self.entries);
        let value = entries.queue.pop_front()?;
        self.len.store(entries.queue.len(), Ordering::Release);
        Some((value, !entries.queue.is_empty()))
    }

    /// Whether there seems to be nothing. A hint, ordered like `take`.
    pub(crate) fn is_empty(&self) -> bool {
        // ORDER: Acquire; as in `take`.
        self.len.load(Ordering::Acquire) == 0
    }

    /// Lets nothing more in.
    pub(crate) fn close(&self) {
        lock(&self.entries).is_closed = true;
    }
}
