//! Did every job survive, and did none run more often than it had to?
//!
//! A fault test (kill, stop, terminate, power cut) cannot know in advance what the engine will do; it can only write
//! down what happened and have it judged afterwards. This module is the judge. The crash tests, the soak and the
//! load program write a journal while they run, hand it over with a dump of the store, and fail unless
//! [`Report::is_clean`] says otherwise.
//!
//! It shares no code and no types with the engine it judges: ids, states and processes are plain strings, instants
//! are Unix milliseconds, and it never asks for the time. What it is told comes from four sources, collected in a
//! [`History`]: the push log, the run journal, the fault log (all three are [`Event`]s) and the store's final dump
//! ([`Stored`]).
//!
//! # What it looks for
//! - **lost**: the push was acknowledged, yet the dump has no record of the job in one of the seven states, and the
//!   journal does not account for the absence. An accepted outcome accounts for it: a job may be removed once it is
//!   done. Where jobs are removed on success ([`Allowances::removed_when_done`]) it is enough that the run with the
//!   highest number finished: its process may have been killed between the store's commit and the journal line.
//!   A push that was never acknowledged is in doubt and may be there or not.
//! - **ghost**: run, though never sent.
//! - **duplicate**: a job was started again although its previous run had not been handed on by an accepted failure
//!   or release. The previous run is the started one with the next lower run number: the order of the leases, not of
//!   the clock, for a stopped process can start late what it leased early. A duplicate is *explained* when a fault
//!   touched the process of the previous run: it began before the later start, and the previous run started before
//!   the fault was over (plus [`Allowances::lag_ms`]). No fault explains a second start of one run, nor a start
//!   after a final outcome was accepted.
//! - **double finish**: more than one accepted final outcome, by the journal or by the dump.
//! - **stale finish**: a final outcome accepted from a run although a later run had started already. The fence leaks.
//! - **early run**: started before the job's `run_at`, less [`Allowances::skew_ms`].
//!
//! What people do by hand (requeue, delete) is not modelled: judge a history before anyone touches it.
//!
//! # The journal
//! Text, one event a line, fields separated by one tab. Every party appends to the same file, or each to its own:
//! [`History::read`] takes any number of them in any order. Instants are decimal Unix milliseconds.
//!
//! ```text
//! sent       ID  AT  RUN_AT|-                  before the push; `-` when it may run at once
//! acked      ID  AT                            after the push succeeded
//! started    ID  ATTEMPT  RUN  PROCESS  AT     first thing in the handler
//! finished   ID  ATTEMPT  RUN  PROCESS  AT     last thing in a handler that succeeded
//! accepted   ID  ATTEMPT  RUN  PROCESS  AT     the store took a final outcome (done, dead, cancelled)
//! failed     ID  ATTEMPT  RUN  PROCESS  AT     the store took a failure; the job will be retried
//! released   ID  ATTEMPT  RUN  PROCESS  AT     the store took the job back (release, snooze)
//! kill       PROCESS  FROM  UNTIL              before the signal, and after the process was seen gone
//! stop       PROCESS  FROM  UNTIL              before it was stopped, and after it was continued
//! term       PROCESS  FROM  UNTIL              before the signal, and after the process was seen gone
//! ```
//!
//! `RUN` counts the leases of a job from 1 and is never given back; `ATTEMPT` is shown only. `PROCESS` must be new
//! at each start of a process (say `pid@start`): operating systems use their numbers again. A last line without its
//! newline was torn by a kill; it is counted and left out, whatever it seems to say. Any other line that cannot be
//! read is an error.

mod history;
mod journal;
mod judge;
mod report;
#[cfg(test)]
mod tests;

pub use history::{Allowances, Event, Fault, FaultKind, History, Phase, Run, Stored};
pub use journal::Journal;
pub use report::{DoubleFinish, Duplicate, EarlyRun, Moment, Report, StaleFinish};
