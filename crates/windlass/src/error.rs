//! What can go wrong, in types a caller can act on.
//!
//! A message says what was tried, on what, what was found, and what to do. [`StoreError::is_transient`] tells the
//! services whether to try again; everything else is for the caller to decide.

use crate::state::State;

/// A job description that no store would accept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid job: {field} is {found}: must be {allowed}")]
pub struct InvalidJob {
    /// Which field.
    pub field: &'static str,
    /// What it was.
    pub found: String,
    /// What it may be.
    pub allowed: String,
}

impl InvalidJob {
    pub(crate) fn new(field: &'static str, found: String, allowed: String) -> InvalidJob {
        InvalidJob { field, found, allowed }
    }
}

/// What a store answers when it cannot do what it was asked. Cheap enough to clone: one failed commit answers
/// every call that was part of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The member's lease has run out, and with it every right to the jobs it had leased. Nothing was changed.
    #[error(
        "{tried} refused: member {member} has lost its lease; its jobs belong to others now: join again under a new identity"
    )]
    Fenced {
        /// The verb.
        tried: &'static str,
        /// Who asked.
        member: String,
    },
    /// No room to write. Nothing was changed; what is stored is safe.
    #[error("{tried} failed on {store}: no space left ({detail}); free some space, the call may be repeated")]
    Full {
        /// The verb.
        tried: &'static str,
        /// Which store.
        store: String,
        /// What the system said.
        detail: String,
    },
    /// The store cannot be reached or is too busy now. Nothing was changed; the call may be repeated.
    #[error("{tried} failed on {store}: {detail}; the call may be repeated")]
    Unavailable {
        /// The verb.
        tried: &'static str,
        /// Which store.
        store: String,
        /// What was found.
        detail: String,
    },
    /// The store is there and must not be used: foreign, corrupt, too new, on a network file system.
    #[error("cannot {tried} {store}: {found}; {hint}")]
    Refused {
        /// What was tried: `open`, `migrate` …
        tried: &'static str,
        /// Which store.
        store: String,
        /// What was found.
        found: String,
        /// What to do.
        hint: String,
    },
    /// The store failed in a way that makes its promises doubtful: it takes no more writes until it is opened anew.
    #[error(
        "{tried} failed on {store}: {detail}; no more writes are accepted: restart the process after checking the disk"
    )]
    Broken {
        /// The verb.
        tried: &'static str,
        /// Which store.
        store: String,
        /// What was found.
        detail: String,
    },
    /// The caller asked for something outside a stated limit.
    #[error("{tried} refused: {detail}")]
    Invalid {
        /// The verb.
        tried: &'static str,
        /// What was wrong.
        detail: String,
    },
    /// The store has been closed by this process.
    #[error("{tried} refused: the store is closed")]
    Closed {
        /// The verb.
        tried: &'static str,
    },
}

impl StoreError {
    /// Whether the same call may succeed later, unchanged.
    pub fn is_transient(&self) -> bool {
        matches!(self, StoreError::Full { .. } | StoreError::Unavailable { .. })
    }

    /// Whether the member must join again before it may do anything.
    pub fn is_fenced(&self) -> bool {
        matches!(self, StoreError::Fenced { .. })
    }
}

/// What a client, a server or an inspector answers when it cannot do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The job itself is wrong: nothing was sent to the store.
    #[error(transparent)]
    InvalidJob(#[from] InvalidJob),
    /// The job's value could not be written as JSON.
    #[error("cannot write a job of kind {kind:?} as JSON: {detail}")]
    Encode {
        /// Which kind.
        kind: String,
        /// What serde said.
        detail: String,
    },
    /// The store could not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A list was stored in part: the first `accepted` jobs are in the store, the rest are not.
    #[error("stored the first {accepted} of {total} jobs: {cause}")]
    Partly {
        /// How many are in the store.
        accepted: usize,
        /// How many were asked for.
        total: usize,
        /// What stopped it.
        cause: StoreError,
    },
    /// There is no such job, or no longer.
    #[error("no job {id} in the store")]
    NotFound {
        /// Which id.
        id: String,
    },
    /// No such process works on the store, or no longer.
    #[error("no process {id:?} works on the store")]
    NoSuchProcess {
        /// Which process.
        id: String,
    },
    /// The job is in a state that does not allow it.
    #[error("cannot {tried} job {id}: it is {state}")]
    WrongState {
        /// What was tried.
        tried: &'static str,
        /// Which job.
        id: String,
        /// Where it stands.
        state: State,
    },
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] crate::config::ConfigError),
}
