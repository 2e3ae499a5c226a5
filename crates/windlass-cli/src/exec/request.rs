//! What the server and a guard say to each other.
//!
//! The server writes one [`Request`], a line of JSON, to the guard's standard input and keeps the pipe open. Anything
//! more on it means "end the program"; its end means that the server is gone. The guard answers on its standard
//! output, a line of JSON each: [`Report::Started`], then one of the others. Both ends are the same binary, so the
//! format has no version: the server starts its guards from its own image, even when the file was replaced.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::exec::capture::Captured;

/// The order to end the program.
pub(super) const END: &[u8] = b"end\n";

/// What to run, and how to end it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) program: PathBuf,
    /// The name it is called by, and its arguments.
    pub(super) argv: Vec<String>,
    /// On top of the guard's own environment, which is the server's.
    pub(super) environment: BTreeMap<String, String>,
    pub(super) cwd: Option<PathBuf>,
    /// What it reads on its standard input.
    pub(super) stdin: Option<String>,
    /// From TERM to KILL.
    pub(super) grace_ms: u64,
    /// From TERM to KILL when the server is gone.
    pub(super) orphan_grace_ms: u64,
}

/// What became of it.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Report {
    /// It runs, in this process group.
    Started {
        /// Also the id of its first process.
        group: i32,
    },
    /// It could not be started.
    NotStarted {
        /// Why.
        error: String,
    },
    /// It has ended, and all that it started.
    Ended(Ended),
    /// Made up by the server: the guard ended without a report.
    GuardLost,
}

/// How a program ended.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Ended {
    /// The exit code, unless a signal ended it.
    pub(super) code: Option<i32>,
    /// The signal that ended it.
    pub(super) signal: Option<i32>,
    pub(super) ran_ms: u64,
    pub(super) stdout: Captured,
    pub(super) stderr: Captured,
    /// Whether something it started could not be killed.
    pub(super) has_survivors: bool,
}
