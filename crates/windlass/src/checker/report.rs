//! The verdict: counts, offences, and the story of each offender.
//!
//! For people it prints at most twelve lines; for programs it is JSON. Offences are listed in the order of their ids,
//! so that two judgements of one history are equal.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;

use super::history::{Fault, FaultKind};

/// So many ids are named on a line of the summary.
const NAMED_MAX: usize = 3;

/// What [`History::check`](super::History::check) found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Report {
    /// Jobs pushed, repeated pushes counted once.
    pub sent: u64,
    /// Of those, the ones whose push was acknowledged; the rest are in doubt.
    pub acknowledged: u64,
    /// Runs started.
    pub started: u64,
    /// Runs whose handler succeeded.
    pub finished: u64,
    /// Jobs with an accepted final outcome.
    pub accepted: u64,
    /// Starts that follow an accepted failure.
    pub retries: u64,
    /// Starts that follow an accepted release or snooze.
    pub releases: u64,
    /// Faults in the log.
    pub faults: u64,
    /// Last lines of journals that were cut short.
    pub torn_lines: u64,
    /// How many records the store holds in each state.
    pub states: BTreeMap<String, u64>,
    /// Jobs acknowledged and gone.
    pub lost: Vec<String>,
    /// Jobs run though never sent.
    pub ghosts: Vec<String>,
    /// Starts that should not have been needed, explained or not.
    pub duplicates: Vec<Duplicate>,
    /// Jobs that ended more than once.
    pub double_finishes: Vec<DoubleFinish>,
    /// Jobs whose outcome came from a run that had lost its lease.
    pub stale_finishes: Vec<StaleFinish>,
    /// Jobs that ran before their time; the first such run of each.
    pub early_runs: Vec<EarlyRun>,
    /// What happened to each offender; the first twenty by id.
    pub timelines: BTreeMap<String, Vec<Moment>>,
}

/// A job was started again though its previous run had not given it up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Duplicate {
    /// The job.
    pub id: String,
    /// The run before.
    pub earlier_run: u64,
    /// The run that should not have been needed.
    pub later_run: u64,
    /// The fault that took the job from the earlier run; `None` is an offence.
    pub explained_by: Option<Fault>,
}

/// A job ended more than once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DoubleFinish {
    /// The job.
    pub id: String,
    /// Final outcomes accepted for it; at least 2.
    pub accepted: u64,
}

/// A final outcome was accepted from a run that had lost its lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StaleFinish {
    /// The job.
    pub id: String,
    /// The run whose outcome was accepted.
    pub accepted_run: u64,
    /// A later run that had started by then.
    pub later_run: u64,
}

/// A job ran before its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EarlyRun {
    /// The job.
    pub id: String,
    /// The run that was early.
    pub run: u64,
    /// When it started, in Unix milliseconds.
    pub started_at: i64,
    /// When it might have, in Unix milliseconds.
    pub run_at: i64,
}

/// Something that happened to a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Moment {
    /// When, in Unix milliseconds; `i64::MAX` for what the store says in the end.
    pub at: i64,
    /// What, in words.
    pub what: String,
}

impl Moment {
    pub(super) fn new(at: i64, what: String) -> Moment {
        Moment { at, what }
    }
}

impl Report {
    /// Whether nothing forbidden happened. Explained duplicates, retries and torn lines are not forbidden.
    pub fn is_clean(&self) -> bool {
        self.offenders().is_empty()
    }

    /// The jobs that something forbidden happened to.
    pub fn offenders(&self) -> BTreeSet<&str> {
        let mut ids: BTreeSet<&str> = BTreeSet::new();
        ids.extend(self.lost.iter().chain(&self.ghosts).map(String::as_str));
        ids.extend(self.unexplained().map(|duplicate| duplicate.id.as_str()));
        ids.extend(self.double_finishes.iter().map(|finish| finish.id.as_str()));
        ids.extend(self.stale_finishes.iter().map(|finish| finish.id.as_str()));
        ids.extend(self.early_runs.iter().map(|early| early.id.as_str()));
        ids
    }

    /// The duplicates that no fault explains.
    pub fn unexplained(&self) -> impl Iterator<Item = &Duplicate> {
        self.duplicates.iter().filter(|duplicate| duplicate.explained_by.is_none())
    }

    /// How many duplicates a fault of this kind explains.
    pub fn explained_by(&self, kind: FaultKind) -> usize {
        let causes = self.duplicates.iter().filter_map(|duplicate| duplicate.explained_by.as_ref());
        causes.filter(|fault| fault.kind == kind).count()
    }

    /// The whole report as one line of JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a report is text, numbers and maps keyed by text")
    }

    /// The timelines of the offenders as text, a line for each moment: what a failing test prints after the summary.
    /// Empty when the report is clean.
    pub fn stories(&self) -> String {
        let mut text = String::new();
        for (id, moments) in &self.timelines {
            text.push_str(&format!("{id}\n"));
            for Moment { at, what } in moments {
                let at = if *at == i64::MAX { "end".to_owned() } else { at.to_string() };
                text.push_str(&format!("  {at:>14}  {what}\n"));
            }
        }
        text
    }
}

/// The summary: at most twelve lines, the last without a newline.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { sent, acknowledged, started, finished, accepted, .. } = self;
        let verdict = match self.offenders().len() {
            0 => "clean".to_owned(),
            count => format!("NOT CLEAN: {count} jobs"),
        };
        writeln!(f, "history:         {verdict}")?;
        let in_doubt = sent - acknowledged;
        writeln!(f, "pushes:          {sent} sent, {acknowledged} acknowledged, {in_doubt} in doubt")?;
        writeln!(
            f,
            "runs:            {started} started, {finished} finished, {} retries, {} releases",
            self.retries, self.releases
        )?;
        writeln!(f, "jobs:            {accepted} ended{}", states(&self.states))?;
        writeln!(f, "faults:          {}, {} torn lines", self.faults, self.torn_lines)?;
        writeln!(f, "lost:            {}", named(self.lost.iter()))?;
        writeln!(f, "ghosts:          {}", named(self.ghosts.iter()))?;
        let causes = FaultKind::ALL.map(|kind| format!("{} by {kind}", self.explained_by(kind))).join(", ");
        writeln!(f, "duplicates:      {}: {causes}", self.duplicates.len())?;
        writeln!(f, "unexplained:     {}", named(self.unexplained().map(|duplicate| &duplicate.id)))?;
        writeln!(f, "double finishes: {}", named(self.double_finishes.iter().map(|finish| &finish.id)))?;
        writeln!(f, "stale finishes:  {}", named(self.stale_finishes.iter().map(|finish| &finish.id)))?;
        write!(f, "early runs:      {}", named(self.early_runs.iter().map(|early| &early.id)))
    }
}

fn states(states: &BTreeMap<String, u64>) -> String {
    let counts = states.iter().map(|(state, count)| format!(", {count} {state}"));
    counts.collect()
}

/// A count, and the first few ids.
fn named<'a>(ids: impl Iterator<Item = &'a String>) -> String {
    let ids: Vec<&str> = ids.map(String::as_str).collect();
    let some = ids.iter().take(NAMED_MAX).copied().collect::<Vec<_>>().join(" ");
    match ids.len() {
        0 => "0".to_owned(),
        count if count <= NAMED_MAX => format!("{count} ({some})"),
        count => format!("{count} ({some} …)"),
    }
}
