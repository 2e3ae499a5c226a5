//! Putting tasks where they will be found, and telling somebody, if it must be (`sleep.rs`, P1 to P3).

use crate::lane::{Lane, Role};
use crate::shared::flag;
use crate::slot::{Priority, Slot, SlotRef};
use crate::sync::{Ordering, compiler_fence};

impl Lane {
    /// Puts the entry of a queued task where it will be found, by this thread if by nobody else: it comes back to its ring
    /// before it leaves the pool.
    #[inline]
    pub(crate) fn push(&self, slot: &Slot) {
        if self.place(slot) {
            self.announce_push();
        }
    }

    /// Puts the entry of a queued task where it will be found, even if this thread should block, or never come back.
    #[inline]
    pub(crate) fn push_for_others(&self, slot: &Slot) {
        if self.place(slot) {
            self.ring_bell();
        }
    }

    /// Puts an entry into the ring. `false` if it went elsewhere, and whoever is to know of it does.
    #[inline]
    fn place(&self, slot: &Slot) -> bool {
        if self.shared.flags() & flag::DETERMINISTIC != 0 || slot.state.priority() != Priority::Normal {
            self.push_elsewhere(slot);
            return false;
        }
        self.offer(SlotRef::of(slot));
        true
    }

    #[inline]
    fn offer(&self, entry: SlotRef) {
        self.desk().ring.push(entry.to_entry());
        self.desk().counters.offered.add(1);
    }

    /// Puts a segment where it will be found, by this thread if by nobody else.
    #[inline]
    pub(crate) fn push_entry(&self, entry: SlotRef) {
        if let Some(queue) = &self.shared.deterministic {
            return queue.push(entry);
        }
        self.offer(entry);
        self.announce_push();
    }

    /// Puts the entries of several queued tasks of normal priority into the ring, and shows them at once.
    pub(crate) fn push_many(&self, slots: impl Iterator<Item = SlotRef>) {
        if let Some(queue) = &self.shared.deterministic {
            return slots.for_each(|slot| queue.push(slot));
        }
        let count = self.desk().ring.push_many(slots.map(SlotRef::to_entry));
        self.desk().counters.offered.add(count as u64);
        self.ring_bell();
    }

    #[cold]
    fn push_elsewhere(&self, slot: &Slot) {
        if let Some(queue) = &self.shared.deterministic {
            return queue.push(SlotRef::of(slot));
        }
        self.shared.injector.push(slot.state.priority(), std::iter::once(SlotRef::of(slot)));
        self.desk().counters.offered.add(1);
        if self.shared.injector.bell.ring() || self.shared.sleep.would_wake() {
            self.shared.wake_one();
        }
    }

    #[inline]
    fn announce_push(&self) {
        // The compiler must not move the look before the push; that the processor may is accepted where the thread runs
        // its tasks itself, and ruled out by the bell where it may not.
        compiler_fence(Ordering::SeqCst);
        if self.role == Role::Guest && self.calls.get() == 0 {
            self.ring_bell();
        } else if self.shared.sleep.would_wake() {
            self.shared.wake_one();
        }
    }

    #[inline]
    pub(crate) fn ring_bell(&self) {
        // Not `||` in the other order: the bell must be rung.
        if self.desk().bell.ring() || self.shared.sleep.would_wake() {
            self.shared.wake_one();
        }
    }
}
