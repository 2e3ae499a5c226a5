//! Where handles are counted, so that the pool's memory outlives them.
//!
//! A handle must keep the pool's memory, but a shared count for each task would cost more than the task. So handles
//! count on their [`Home`], one for each lane (`lane.rs`): those dropped by the thread that made them in plain memory,
//! those dropped elsewhere by one exchange. `away` begins at [`ATTACHED`] and is lowered by each drop elsewhere. When the
//! lane goes, it lowers `away` by `ATTACHED` less the handles that were made and not dropped there: what remains is the
//! number of handles still alive. Whoever brings it to zero frees the home, and with it its share of the pool. The loom
//! model is `loom_tests/home.rs`; its control has the lane go without acquiring what others have left.

use crate::shared::SharedRef;
use crate::sync::{Arc, AtomicI64, Ordering};

/// What a home's count begins with.
const ATTACHED: i64 = 1 << 40;

/// Where the handles of one lane are counted; keeps the pool's memory.
pub(crate) struct Home {
    shared: SharedRef,
    away: AwayCount,
}

impl Home {
    /// A home of the lane that is being made: in memory of its own, for it may outlive the lane.
    pub(crate) fn of(shared: &SharedRef) -> *const Home {
        Box::into_raw(Box::new(Home { shared: Arc::clone(shared), away: AwayCount::new() }))
    }

    /// A handle was dropped on another thread than its lane's, or after the lane has gone.
    ///
    /// # Safety
    /// The handle was counted here by its lane, and is not used again.
    pub(crate) unsafe fn drop_elsewhere(home: *const Home) {
        // SAFETY: the handle was counted, so the home is alive.
        if unsafe { &*home }.away.drop_elsewhere() {
            // SAFETY: made by `Box::into_raw` in `of`, and we brought the count to zero.
            drop(unsafe { Box::from_raw(home.cast_mut()) });
        }
    }

    /// The lane goes, with so many handles made and not dropped on it.
    ///
    /// # Safety
    /// It is this lane's home, and is told so once.
    pub(crate) unsafe fn detach(home: *const Home, held: i64) {
        // SAFETY: the home lives as long as its lane, at least.
        if unsafe { &*home }.away.detach(held) {
            // SAFETY: made by `Box::into_raw` in `of`, and we brought the count to zero.
            drop(unsafe { Box::from_raw(home.cast_mut()) });
        }
    }
}

/// The shared part of a home's count.
pub(crate) struct AwayCount(AtomicI64);

impl AwayCount {
    pub(crate) fn new() -> AwayCount {
        AwayCount(AtomicI64::new(ATTACHED))
    }

    /// A handle was dropped on another thread, or after the lane has gone. Answers whether it was the last.
    #[must_use]
    pub(crate) fn drop_elsewhere(&self) -> bool {
        // ORDER: AcqRel; the last one frees what all others have used.
        self.0.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// The lane goes, with so many handles made and not dropped on it. Answers whether none is left.
    #[must_use]
    pub(crate) fn detach(&self, held: i64) -> bool {
        let change = ATTACHED - held;
        self.0.fetch_sub(change, DETACH_ORDER) == change
    }
}

/// ORDER: AcqRel; as in `drop_elsewhere`.
#[cfg(not(windlass_weaken = "home"))]
const DETACH_ORDER: Ordering = Ordering::AcqRel;
/// The control of the model: the lane frees what it has not seen others leave.
#[cfg(windlass_weaken = "home")]
const DETACH_ORDER: Ordering = Ordering::Relaxed;

/// The pool of a home.
///
/// # Safety
/// A handle counted at the home is alive during `'a`.
pub(crate) unsafe fn shared_of<'a>(home: *const Home) -> &'a SharedRef {
    // SAFETY: passed on to the caller.
    &unsafe { &*home }.shared
}
