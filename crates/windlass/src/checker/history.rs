//! What is known of a test run: pushes, runs, faults, and what the store says in the end.
//!
//! Events may be recorded in any order: runs are put in the order of their leases when they are judged, and all
//! events in the order of time when a story is told.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::report::Moment;

/// One line of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A producer is about to push a job. Recorded before the call, so that a push whose answer never came is known
    /// to be in doubt.
    Sent {
        /// The job.
        id: String,
        /// When, in Unix milliseconds.
        at: i64,
        /// The instant before which the job must not run; `None` when it may run at once.
        run_at: Option<i64>,
    },
    /// The push succeeded. Without a [`Event::Sent`] before it, it says that too.
    Acknowledged {
        /// The job.
        id: String,
        /// When, in Unix milliseconds.
        at: i64,
    },
    /// Something happened to a run of a job.
    Run(Run),
    /// Something was done to a process.
    Fault(Fault),
}

/// How far a run has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// The handler began.
    Started,
    /// The handler succeeded; nobody has been told yet.
    Finished,
    /// The store accepted a final outcome: done, dead or cancelled.
    Accepted,
    /// The store accepted a failure that will be retried.
    Failed,
    /// The store accepted the job back unfinished: released or snoozed.
    Released,
}

impl Phase {
    /// Every phase.
    pub const ALL: [Phase; 5] = [Phase::Started, Phase::Finished, Phase::Accepted, Phase::Failed, Phase::Released];

    /// The word of the journal.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Started => "started",
            Phase::Finished => "finished",
            Phase::Accepted => "accepted",
            Phase::Failed => "failed",
            Phase::Released => "released",
        }
    }
}

/// One phase of one run of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// How far the run has come.
    pub phase: Phase,
    /// The job.
    pub id: String,
    /// The attempt as the handler sees it; shown, never judged, for attempts are given back.
    pub attempt: u32,
    /// Which lease of the job's life it is, from 1; every lease has its own.
    pub run: u64,
    /// The process that ran it; new at each start of a process.
    pub process: String,
    /// When, in Unix milliseconds.
    pub at: i64,
}

/// What was done to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FaultKind {
    /// Ended without warning (SIGKILL, a power cut, an abort).
    Kill,
    /// Held still for a while (SIGSTOP to SIGCONT, a suspended machine).
    Stop,
    /// Asked to end in good order (SIGTERM). Explains a duplicate like the others, and is counted by itself, so that
    /// a test of graceful stops can demand none.
    Term,
}

impl FaultKind {
    /// Every kind.
    pub const ALL: [FaultKind; 3] = [FaultKind::Kill, FaultKind::Stop, FaultKind::Term];

    /// The word of the journal.
    pub const fn name(self) -> &'static str {
        match self {
            FaultKind::Kill => "kill",
            FaultKind::Stop => "stop",
            FaultKind::Term => "term",
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A fault and the time it lasted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// What was done.
    pub kind: FaultKind,
    /// To which process.
    pub process: String,
    /// Read before the signal was sent, in Unix milliseconds.
    pub from: i64,
    /// Read after the process was seen gone, or continued, in Unix milliseconds.
    pub until: i64,
}

/// What the store says of a job in the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stored {
    /// One of `scheduled ready running retry done dead cancelled`. A record in any other state counts as missing.
    pub state: String,
    /// How many final outcomes the store has accepted for it.
    pub accepted: u32,
    /// Attempts begun and not given back; shown only.
    pub attempt: u32,
    /// Processes lost with it; shown only.
    pub recoveries: u32,
}

/// How much the judge overlooks. The default overlooks nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Allowances {
    /// How many milliseconds before its `run_at` a job may start: what clocks may differ by. Not negative.
    pub skew_ms: i64,
    /// How many milliseconds a process may be behind: a `failed` or `released` line may follow the next start by so
    /// much, and a process may start what it leased before so long after it was continued. On a busy machine the
    /// scheduler alone costs tens of milliseconds; stay well below the lease. Not negative.
    pub lag_ms: i64,
    /// Whether the store removes jobs as they succeed instead of keeping them for a while.
    pub removed_when_done: bool,
}

/// One job's push, made of its lines. A repeated push is one push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Push {
    pub(super) sent_at: i64,
    pub(super) acknowledged_at: Option<i64>,
    pub(super) run_at: Option<i64>,
}

/// Everything the judge is told. Fill it with [`record`](History::record), [`read`](History::read) and
/// [`store`](History::store), then [`check`](History::check).
///
/// All of it is held in memory: about 120 bytes for each line of the journal.
#[derive(Debug, Clone, Default)]
pub struct History {
    pub(super) allowances: Allowances,
    pub(super) pushes: BTreeMap<String, Push>,
    pub(super) runs: Vec<Run>,
    pub(super) faults: Vec<Fault>,
    pub(super) stored: BTreeMap<String, Stored>,
    pub(super) torn_lines: u64,
}

impl History {
    /// Starts an empty history.
    /// # Panics
    /// If an allowance is negative: the judge would call correct runs wrong.
    pub fn new(allowances: Allowances) -> History {
        assert!(allowances.skew_ms >= 0, "checker: skew_ms = {}: must not be negative", allowances.skew_ms);
        assert!(allowances.lag_ms >= 0, "checker: lag_ms = {}: must not be negative", allowances.lag_ms);
        History { allowances, ..History::default() }
    }

    /// Takes in one event.
    pub fn record(&mut self, event: Event) {
        match event {
            Event::Sent { id, at, run_at } => self.push(id, at, None, run_at),
            Event::Acknowledged { id, at } => self.push(id, at, Some(at), None),
            Event::Run(run) => self.runs.push(run),
            Event::Fault(fault) => self.faults.push(fault),
        }
    }

    /// Takes in what the store's dump says of a job; a second record of the same job replaces the first.
    pub fn store(&mut self, id: impl Into<String>, stored: Stored) {
        self.stored.insert(id.into(), stored);
    }

    /// Everything known of a job, in the order of time: its push, its runs, the faults of the processes that ran it,
    /// and, last, what the store says of it. Empty for a job nobody knows.
    /// # Cost
    /// One pass over all runs and faults.
    pub fn timeline(&self, id: &str) -> Vec<Moment> {
        let mut moments = Vec::new();
        if let Some(push) = self.pushes.get(id) {
            let run_at = push.run_at.map_or(String::new(), |run_at| format!(", not to run before {run_at}"));
            moments.push(Moment::new(push.sent_at, format!("sent{run_at}")));
            moments.extend(push.acknowledged_at.map(|at| Moment::new(at, "acknowledged".to_owned())));
        }
        let runs: Vec<&Run> = self.runs.iter().filter(|run| run.id == id).collect();
        for fault in self.faults.iter().filter(|fault| runs.iter().any(|run| run.process == fault.process)) {
            let Fault { kind, process, .. } = fault;
            moments.push(Moment::new(fault.from, format!("{kind} of process {process} begins")));
            moments.push(Moment::new(fault.until, format!("{kind} of process {process} is over")));
        }
        for Run { phase, attempt, run, process, at, .. } in runs {
            let phase = phase.name();
            let text = format!("{phase}: run {run}, attempt {attempt}, process {process}");
            moments.push(Moment::new(*at, text));
        }
        moments.sort_by_key(|moment| moment.at);
        moments.extend(self.stored.get(id).map(final_moment));
        moments
    }

    fn push(&mut self, id: String, at: i64, acknowledged_at: Option<i64>, run_at: Option<i64>) {
        let push = self.pushes.entry(id).or_insert(Push { sent_at: at, acknowledged_at, run_at });
        push.sent_at = push.sent_at.min(at);
        push.acknowledged_at = earliest(push.acknowledged_at, acknowledged_at);
        push.run_at = earliest(push.run_at, run_at);
    }
}

/// The dump has no instant of its own: it was taken after everything else.
fn final_moment(stored: &Stored) -> Moment {
    let Stored { state, accepted, attempt, recoveries } = stored;
    let text =
        format!("in the store: {state}, {accepted} outcomes accepted, attempt {attempt}, {recoveries} recoveries");
    Moment::new(i64::MAX, text)
}

fn earliest(one: Option<i64>, other: Option<i64>) -> Option<i64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
