//! What a server tells those who watch it.
//!
//! A program may give its server one [`Subscriber`]: for metrics, for an audit log, for a test that keeps a journal.
//! It is called on the server's own tasks, so it must be quick and must not block; a panic in it restarts the
//! service that called it.

use std::fmt;

use crate::job::LeaseToken;
use crate::store::{MemberId, Verdict};

/// Something a server has seen happen.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The store has taken a verdict: it is durable now.
    Landed {
        /// Under which membership.
        member: &'a MemberId,
        /// Which run of which job.
        token: LeaseToken,
        /// What was decided.
        verdict: &'a Verdict,
    },
    /// The store refused a verdict, because the job belongs to somebody else by now.
    Fenced {
        /// Under which membership.
        member: &'a MemberId,
        /// Which run of which job.
        token: LeaseToken,
    },
    /// The server lost its membership, and joins again under a new identity.
    MemberLost {
        /// The identity that is gone.
        member: &'a MemberId,
        /// Leased jobs that had not started and now belong to others.
        forgotten: usize,
        /// Jobs that were running, and have been told.
        running: usize,
    },
}

/// Watches a server.
pub trait Subscriber: Send + Sync + 'static {
    /// Is told of an event.
    fn event(&self, event: &Event<'_>);
}

/// Watches nothing: what a server without a subscriber has.
pub(crate) struct Unwatched;

impl Subscriber for Unwatched {
    fn event(&self, _event: &Event<'_>) {}
}

impl fmt::Debug for dyn Subscriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Subscriber")
    }
}
