//! Why a pool could not be started.

use std::{fmt, io};

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
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PoolError::Config { field, found, allowed } => write!(f, "pool config: {field} = {found}: {allowed}"),
            PoolError::Thread { started, wanted, cause } => {
                write!(f, "cannot start a pool of {wanted} threads: the system gave {started}, then said: {cause}")
            }
        }
    }
}

impl std::error::Error for PoolError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            PoolError::Config { .. } => None,
            PoolError::Thread { cause, .. } => Some(cause),
        }
    }
}
