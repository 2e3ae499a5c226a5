//! The judgement: from a history to a report.
//!
//! Jobs are judged one by one and know nothing of each other; what they share are the faults, looked up by process.
//! Each rule is one function that takes one [`Case`]; `mod.rs` says the rules in words.

use std::collections::{BTreeMap, HashMap};

use super::history::{Allowances, Fault, History, Phase, Push, Run, Stored};
use super::report::{DoubleFinish, Duplicate, EarlyRun, Report, StaleFinish};

/// The states in which a record accounts for its job. Not taken from the engine's own table: a state that the table
/// gained by mistake must not excuse a loss.
const STATES: [&str; 7] = ["scheduled", "ready", "running", "retry", "done", "dead", "cancelled"];

/// At most so many offenders get their timeline into the report: a catastrophe is understood from its first jobs.
const TIMELINES_MAX: usize = 20;

/// Everything known of one job.
#[derive(Debug, Default)]
struct Case<'a> {
    id: &'a str,
    push: Option<&'a Push>,
    stored: Option<&'a Stored>,
    runs: Vec<&'a Run>,
    /// The `started` ones among them, in the order of their leases.
    starts: Vec<&'a Run>,
}

impl History {
    /// Judges the history.
    /// # Cost
    /// One sort of the starts of each job, and one pass over the rest: about 2 s and 230 MiB for a million jobs of
    /// five lines each.
    pub fn check(&self) -> Report {
        let mut faults: HashMap<&str, Vec<&Fault>> = HashMap::new();
        for fault in &self.faults {
            faults.entry(&fault.process).or_default().push(fault);
        }
        let mut report = Report { torn_lines: self.torn_lines, faults: self.faults.len() as u64, ..Report::default() };
        for case in self.cases().into_values() {
            count(&case, &mut report);
            if is_lost(&case, self.allowances) {
                report.lost.push(case.id.to_owned());
            }
            if case.push.is_none() && !case.runs.is_empty() {
                report.ghosts.push(case.id.to_owned());
            }
            judge_successions(&case, self.allowances, &faults, &mut report);
            report.double_finishes.extend(double_finish(&case));
            report.stale_finishes.extend(stale_finish(&case));
            report.early_runs.extend(early_run(&case, self.allowances));
        }
        let offenders: Vec<String> = report.offenders().into_iter().take(TIMELINES_MAX).map(str::to_owned).collect();
        report.timelines = offenders
            .into_iter()
            .map(|id| {
                let timeline = self.timeline(&id);
                (id, timeline)
            })
            .collect();
        report
    }

    fn cases(&self) -> BTreeMap<&str, Case<'_>> {
        let mut cases: BTreeMap<&str, Case<'_>> = BTreeMap::new();
        for (id, push) in &self.pushes {
            cases.entry(id).or_default().push = Some(push);
        }
        for (id, stored) in &self.stored {
            cases.entry(id).or_default().stored = Some(stored);
        }
        for run in &self.runs {
            cases.entry(&run.id).or_default().runs.push(run);
        }
        for (id, case) in &mut cases {
            case.id = id;
            case.starts = case.in_phase(Phase::Started).collect();
            case.starts.sort_by_key(|start| (start.run, start.at));
        }
        cases
    }
}

impl<'a> Case<'a> {
    fn in_phase(&self, phase: Phase) -> impl Iterator<Item = &'a Run> {
        self.runs.iter().copied().filter(move |run| run.phase == phase)
    }

    /// The journal and the dump each count what they saw; the same outcome is in both, so the larger count holds.
    fn accepted(&self) -> u64 {
        let journaled = self.in_phase(Phase::Accepted).count() as u64;
        journaled.max(self.stored.map_or(0, |stored| u64::from(stored.accepted)))
    }
}

fn count(case: &Case<'_>, report: &mut Report) {
    if let Some(push) = case.push {
        report.sent += 1;
        report.acknowledged += u64::from(push.acknowledged_at.is_some());
    }
    report.started += case.starts.len() as u64;
    report.finished += case.in_phase(Phase::Finished).count() as u64;
    report.accepted += u64::from(case.accepted() > 0);
    if let Some(stored) = case.stored {
        *report.states.entry(stored.state.clone()).or_default() += 1;
    }
}

fn is_lost(case: &Case<'_>, allowances: Allowances) -> bool {
    let acknowledged = case.push.is_some_and(|push| push.acknowledged_at.is_some());
    let in_store = case.stored.is_some_and(|stored| STATES.contains(&stored.state.as_str()));
    acknowledged && !in_store && !is_removal_accounted_for(case, allowances)
}

fn is_removal_accounted_for(case: &Case<'_>, allowances: Allowances) -> bool {
    if case.in_phase(Phase::Accepted).next().is_some() {
        return true;
    }
    // Only the last lease can have been acked: an earlier run that finished after it was fenced says nothing about
    // what became of the job.
    let last = case.starts.last();
    allowances.removed_when_done
        && last.is_some_and(|last| case.in_phase(Phase::Finished).any(|finished| finished.run == last.run))
}

/// Looks at each start and the one before it: a retry, a job handed back, or a duplicate.
fn judge_successions(
    case: &Case<'_>,
    allowances: Allowances,
    faults: &HashMap<&str, Vec<&Fault>>,
    report: &mut Report,
) {
    for pair in case.starts.windows(2) {
        let (earlier, later) = (pair[0], pair[1]);
        match handed_on(case, earlier, later, allowances) {
            Some(Phase::Failed) => report.retries += 1,
            Some(_) => report.releases += 1,
            None => report.duplicates.push(Duplicate {
                id: case.id.to_owned(),
                earlier_run: earlier.run,
                later_run: later.run,
                explained_by: explanation(case, earlier, later, allowances, faults).cloned(),
            }),
        }
    }
}

/// How the earlier run gave the job up, if it did so before the later one started.
fn handed_on(case: &Case<'_>, earlier: &Run, later: &Run, allowances: Allowances) -> Option<Phase> {
    let gave_up = |run: &&Run| matches!(run.phase, Phase::Failed | Phase::Released) && run.run == earlier.run;
    let in_time = |run: &&Run| run.at <= later.at.saturating_add(allowances.lag_ms);
    let ending = case.runs.iter().copied().filter(gave_up).find(in_time)?;
    (earlier.run != later.run).then_some(ending.phase)
}

fn explanation<'a>(
    case: &Case<'_>,
    earlier: &Run,
    later: &Run,
    allowances: Allowances,
    faults: &HashMap<&str, Vec<&'a Fault>>,
) -> Option<&'a Fault> {
    let one_lease = earlier.run == later.run;
    let had_ended = case.in_phase(Phase::Accepted).any(|end| end.run == earlier.run && end.at <= later.at);
    if one_lease || had_ended {
        return None;
    }
    let touches =
        |fault: &&&Fault| fault.from < later.at && earlier.at <= fault.until.saturating_add(allowances.lag_ms);
    faults.get(earlier.process.as_str())?.iter().find(touches).copied()
}

fn double_finish(case: &Case<'_>) -> Option<DoubleFinish> {
    let accepted = case.accepted();
    (accepted > 1).then(|| DoubleFinish { id: case.id.to_owned(), accepted })
}

fn stale_finish(case: &Case<'_>) -> Option<StaleFinish> {
    case.in_phase(Phase::Accepted).find_map(|end| {
        let later = case.starts.iter().find(|start| start.run > end.run && start.at < end.at)?;
        Some(StaleFinish { id: case.id.to_owned(), accepted_run: end.run, later_run: later.run })
    })
}

fn early_run(case: &Case<'_>, allowances: Allowances) -> Option<EarlyRun> {
    let run_at = case.push?.run_at?;
    let early = case.starts.iter().find(|start| start.at < run_at.saturating_sub(allowances.skew_ms))?;
    Some(EarlyRun { id: case.id.to_owned(), run: early.run, started_at: early.at, run_at })
}
