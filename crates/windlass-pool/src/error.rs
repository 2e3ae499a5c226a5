//! Why a pool could not be started, and why a task gave no value.

use std::any::Any;
use std::{fmt, io};

use crate::cancel::Cancelled;

/// Why a pool could not be started. Nothing of it is left behind.
#[derive(Debug)]
#[non_exhaustive]
pub enum PoolError {
    /// A setting cannot be used.
    Config {
        /// Which one.
        field: &'static str,
        /// Its value.
        found: String,
        /// What is allowed.
        allowed: String,
    },
    /// The system gave no thread.
    Thread {
        /// How many threads there were already.
        started: usize,
        /// How many were wanted.
        wanted: usize,
        /// What the system said.
        cause: io::Error,
    },
    /// Its threads run already.
    Started,
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PoolError::Config { field, found, allowed } => write!(f, "pool config: {field} = {found}: {allowed}"),
            PoolError::Thread { started, wanted, cause } => {
                write!(f, "cannot start a pool of {wanted} threads: the system gave {started}, then said: {cause}")
            }
            PoolError::Started => f.write_str("cannot start a pool whose threads run: stop and join it first"),
        }
    }
}

impl std::error::Error for PoolError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            PoolError::Config { .. } | PoolError::Started => None,
            PoolError::Thread { cause, .. } => Some(cause),
        }
    }
}

/// Why a task gave no value.
pub enum TaskError {
    /// It was cancelled before it began.
    Cancelled,
    /// It panicked, with this.
    Panicked(Box<dyn Any + Send>),
}

impl From<Box<dyn Any + Send>> for TaskError {
    fn from(panic: Box<dyn Any + Send>) -> TaskError {
        if panic.is::<Cancelled>() { TaskError::Cancelled } else { TaskError::Panicked(panic) }
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TaskError::Cancelled => Cancelled.fmt(f),
            TaskError::Panicked(panic) => write!(f, "the task panicked: {}", crate::panic::text_of(&**panic)),
        }
    }
}

impl fmt::Debug for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskError({self})")
    }
}

impl std::error::Error for TaskError {}

/// A task was to be attached to one that has ended already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlreadyDone;

impl fmt::Display for AlreadyDone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot keep a task open that has ended already: attach its children before they can end it")
    }
}

impl std::error::Error for AlreadyDone {}
