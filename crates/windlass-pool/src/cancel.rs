//! Asking tasks not to run, or to end early.
//!
//! A task that has not begun is cancelled by its handle: it does not run, for whoever moves its slot from *queued* to
//! *running* decides, and the canceller did. A [`CancelToken`] speaks to any number of tasks: those that have not begun
//! do not run, those that run may ask.

use crate::sync::{Arc, AtomicBool, Ordering};

/// What the waiter of a cancelled task is thrown: [`Task::wait`](crate::Task::wait) panics with it,
/// [`Task::wait_result`](crate::Task::wait_result) tells it as an error. Never told to the pool's panic hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cancelled;

impl std::fmt::Display for Cancelled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the task was cancelled before it began")
    }
}

impl std::error::Error for Cancelled {}

/// Cancels any number of tasks. Clones are the same token.
#[derive(Debug, Clone)]
pub struct CancelToken {
    is_cancelled: Arc<AtomicBool>,
}

impl Default for CancelToken {
    fn default() -> CancelToken {
        CancelToken { is_cancelled: Arc::new(AtomicBool::new(false)) }
    }
}

impl CancelToken {
    /// A token that is not cancelled.
    pub fn new() -> CancelToken {
        CancelToken::default()
    }

    /// Tasks with this token that have not begun will not run; those that run see it when they ask.
    pub fn cancel(&self) {
        // ORDER: Release; pairs with `is_cancelled`: who sees it sees what was done before.
        self.is_cancelled.store(true, Ordering::Release);
    }

    /// Whether it is cancelled. Costs one load.
    pub fn is_cancelled(&self) -> bool {
        // ORDER: Acquire; pairs with `cancel`.
        self.is_cancelled.load(Ordering::Acquire)
    }

    /// Runs `f`, unless the token is cancelled: then it unwinds to the task's boundary, which knows why.
    pub(crate) fn guard<T>(&self, f: impl FnOnce() -> T) -> T {
        if self.is_cancelled() {
            std::panic::resume_unwind(Box::new(Cancelled));
        }
        f()
    }
}
