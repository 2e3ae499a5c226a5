//! Asking a running handler to give way, and saying why.
//!
//! A [`CancelToken`] becomes cancelled once, with a [`CancelCause`]; the first cause stands. Async handlers await
//! [`CancelToken::cancelled`], CPU handlers look at [`CancelToken::cause`] in their loops. Nothing is ever forced
//! by the token itself: the runner decides what happens to a handler that does not give way.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::Notify;

/// Why a handler should give way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum CancelCause {
    /// Somebody called the job off.
    Asked = 1,
    /// The attempt took longer than its time-out.
    Timeout = 2,
    /// The server stops, and its deadline has passed; the job will be handed back.
    Stop = 3,
    /// The process lost its membership: the job belongs to somebody else now, and nothing this run reports counts.
    LeaseLost = 4,
}

impl CancelCause {
    /// The words for it.
    pub const fn name(self) -> &'static str {
        match self {
            CancelCause::Asked => "asked to cancel",
            CancelCause::Timeout => "timed out",
            CancelCause::Stop => "server stops",
            CancelCause::LeaseLost => "lease lost",
        }
    }

    fn from_code(code: u8) -> Option<CancelCause> {
        match code {
            1 => Some(CancelCause::Asked),
            2 => Some(CancelCause::Timeout),
            3 => Some(CancelCause::Stop),
            4 => Some(CancelCause::LeaseLost),
            _ => None,
        }
    }
}

impl fmt::Display for CancelCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Becomes cancelled once. Shared by reference between the handler and those who may cancel it.
#[derive(Debug, Default)]
pub struct CancelToken {
    /// 0, or the code of the cause. Written once by whoever cancels first; read by the handler.
    cause: AtomicU8,
    woken: Notify,
}

impl CancelToken {
    /// A token nobody has cancelled.
    pub fn new() -> CancelToken {
        CancelToken::default()
    }

    /// Cancels for `cause`, unless it is cancelled already. Answers whether this call did it.
    pub fn cancel(&self, cause: CancelCause) -> bool {
        // ORDER: AcqRel; pairs with the Acquire load in `cause`. Whoever sees the cause sees what led to it.
        let first = self.cause.compare_exchange(0, cause as u8, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if first {
            self.woken.notify_waiters();
        }
        first
    }

    /// The cause, once it is cancelled. Costs one load: fit for inner loops.
    pub fn cause(&self) -> Option<CancelCause> {
        // ORDER: Acquire; pairs with the exchange in `cancel`.
        CancelCause::from_code(self.cause.load(Ordering::Acquire))
    }

    /// Waits until it is cancelled and answers why. May be awaited by several at once, and dropped at any time.
    pub async fn cancelled(&self) -> CancelCause {
        loop {
            // The interest is registered before the look, so that a cancel in between is not missed.
            let woken = self.woken.notified();
            if let Some(cause) = self.cause() {
                return cause;
            }
            woken.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cause_stands() {
        let token = CancelToken::new();

        assert!(token.cancel(CancelCause::Timeout));
        assert!(!token.cancel(CancelCause::Stop));
        assert_eq!(token.cause(), Some(CancelCause::Timeout));
    }

    #[tokio::test]
    async fn every_waiter_hears_of_it() {
        let token = CancelToken::new();

        let (a, b, ()) = tokio::join!(token.cancelled(), token.cancelled(), async {
            token.cancel(CancelCause::Asked);
        });

        assert_eq!((a, b), (CancelCause::Asked, CancelCause::Asked));
    }
}
