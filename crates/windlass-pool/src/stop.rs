//! How the workers of a pool are told to end.
//!
//! Two flags: stop, and whether to drain the queues before. A worker reads them *before* it looks for work: if it then
//! finds nothing, nothing is left of what was pushed before the pool was told to stop. Read afterwards, a push and the
//! stop could both come between the worker's look and its reading, and the task would lie there for ever.
//!
//! Who sleeps is unparked after the flags are set, and who is about to sleep looks at them after it has announced it
//! (`sleep.rs`). The loom model is `loom_tests/shutdown.rs`; its control reads the flags after the look.

use crate::sync::{AtomicBool, Ordering};

/// What a worker's look has come to.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Look<W> {
    /// Work.
    Found(W),
    /// None, for the moment.
    Nothing,
    /// This thread is to end.
    End,
}

#[derive(Debug)]
pub(crate) struct StopSign {
    is_stopping: AtomicBool,
    /// The workers end when the queues are empty, not before. Written before the other flag.
    is_draining: AtomicBool,
}

impl StopSign {
    pub(crate) fn new() -> StopSign {
        StopSign { is_stopping: AtomicBool::new(false), is_draining: AtomicBool::new(false) }
    }

    /// Has the workers end: when nothing is queued any more, or after the task in hand. The caller wakes them.
    pub(crate) fn set(&self, after_draining: bool) {
        // ORDER: Release; pairs with `is_draining`.
        self.is_draining.store(after_draining, Ordering::Release);
        // ORDER: Release; pairs with `is_set`: what was pushed before is found, and the other flag is there.
        self.is_stopping.store(true, Ordering::Release);
    }

    /// Workers may be started again.
    pub(crate) fn unset(&self) {
        // ORDER: Release; pairs with `is_set`.
        self.is_stopping.store(false, Ordering::Release);
    }

    pub(crate) fn is_set(&self) -> bool {
        // ORDER: Acquire; pairs with `set`.
        self.is_stopping.load(Ordering::Acquire)
    }

    fn is_draining(&self) -> bool {
        // ORDER: Acquire; pairs with `set`.
        self.is_draining.load(Ordering::Acquire)
    }

    /// Looks for work with `find`, unless this thread is to end at once.
    #[cfg(not(windlass_weaken = "shutdown"))]
    pub(crate) fn look<W>(&self, find: impl FnOnce() -> Option<W>) -> Look<W> {
        // Before the look: see above.
        let is_set = self.is_set();
        if is_set && !self.is_draining() {
            return Look::End;
        }
        match find() {
            Some(work) => Look::Found(work),
            None if is_set => Look::End,
            None => Look::Nothing,
        }
    }

    /// The control of the model: the flags are read after the look.
    #[cfg(windlass_weaken = "shutdown")]
    pub(crate) fn look<W>(&self, find: impl FnOnce() -> Option<W>) -> Look<W> {
        match find() {
            Some(work) => Look::Found(work),
            None if self.is_set() => Look::End,
            None => Look::Nothing,
        }
    }
}
