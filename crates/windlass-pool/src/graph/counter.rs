//! What a segment waits for: a count that sets itself again.

use crate::sync::{AtomicU32, Ordering};

/// A predecessor was skipped.
const SKIP: u32 = 1 << 31;
/// In a plan with conditions: somebody runs it.
const RUNNING: u32 = 1 << 30;
const MARKS: u32 = SKIP | RUNNING;

/// Predecessors of a segment.
#[derive(Debug)]
pub(crate) struct Counter {
    /// Those to come in this run, and marks.
    pending: AtomicU32,
    /// All that are counted.
    incoming: u32,
}

impl Counter {
    pub(crate) fn new(incoming: u32) -> Counter {
        Counter { pending: AtomicU32::new(incoming), incoming }
    }

    /// Sets it for the next run. Answers whether a predecessor was skipped.
    #[inline]
    pub(crate) fn begin(&self) -> bool {
        // ORDER: Relaxed; whoever counts it down comes after the end of this run, and the last who did, before us.
        let pending = self.pending.load(Ordering::Relaxed);
        if pending != self.incoming {
            self.pending.store(self.incoming, Ordering::Relaxed);
        }
        pending & SKIP != 0
    }

    /// One predecessor less. Answers whether it was the last.
    #[inline]
    pub(crate) fn release(&self, is_skipped: bool) -> bool {
        if is_skipped {
            // ORDER: Relaxed; published by the count below, or by what hands the segment on.
            self.pending.fetch_or(SKIP, Ordering::Relaxed);
        }
        self.incoming <= 1 || self.pending.fetch_sub(1, RELEASE_ORDER) & !MARKS == 1
    }

    /// In a plan with conditions, where a loop may end a predecessor more than once: one predecessor less. Answers whether
    /// it was the last; nothing if there was none left.
    pub(crate) fn release_once(&self, is_skipped: bool) -> Option<bool> {
        let mark = if is_skipped { SKIP } else { 0 };
        // Below zero it would take away the marks.
        let count = |pending: u32| (pending & !MARKS != 0).then(|| (pending - 1) | mark);
        // ORDER: AcqRel; as `release`.
        let before = self.pending.fetch_update(RELEASE_ORDER, Ordering::Acquire, count);
        before.ok().map(|before| before & !MARKS == 1)
    }

    /// Sets it as before the first run.
    pub(crate) fn reset(&self) {
        // ORDER: Relaxed; nobody runs the plan.
        self.pending.store(self.incoming, Ordering::Relaxed);
    }

    /// In a plan with conditions: begins, unless somebody runs the segment. Answers whether a predecessor was skipped.
    pub(crate) fn enter(&self) -> Option<bool> {
        // ORDER: AcqRel; pairs with `leave`: what the call before has done is visible.
        let before = self.pending.swap(self.incoming | RUNNING, Ordering::AcqRel);
        (before & RUNNING == 0).then_some(before & SKIP != 0)
    }

    /// After `enter`: the segment has run.
    pub(crate) fn leave(&self) {
        // ORDER: Release; pairs with `enter`.
        self.pending.fetch_and(!RUNNING, Ordering::Release);
    }
}

/// ORDER: AcqRel; the last one has seen what all predecessors have done.
#[cfg(not(windlass_weaken = "graph"))]
const RELEASE_ORDER: Ordering = Ordering::AcqRel;
/// The control of the model: the last one has not.
#[cfg(windlass_weaken = "graph")]
const RELEASE_ORDER: Ordering = Ordering::Relaxed;
