//! Made-up lives of jobs, all of them correct: what the judge must not object to.
//!
//! A [`Plan`] says what a job goes through; [`Life::lead`] turns it into the events and the record that a correct
//! engine would leave. Written from the promise, not from the judge: the two share no rule.

use proptest::prelude::*;

use crate::checker::*;

pub(super) const SKEW_MS: i64 = 50;
pub(super) const LAG_MS: i64 = 20;
/// The first plan of a history is the one that is spoilt.
pub(super) const VICTIM: &str = "job-0";

/// What ended a run that was not the last.
#[derive(Debug, Clone, Copy)]
pub(super) enum Mishap {
    Failed,
    /// The failure was accepted, but its line came after the next start.
    FailedLate,
    Released,
    Killed,
    /// Stopped past its lease; went on afterwards, and was fenced.
    Stopped,
    /// Leased, then stopped before the handler began, which it did after the next run had begun.
    StoppedBeforeStart,
    Terminated,
}

/// How a job stands when the history ends.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ending {
    Done,
    DoneAndRemoved,
    /// Removed, and the process was killed before it could write so.
    RemovedUnseen,
    Dead,
    StillReady,
    /// Pushed in doubt, and never arrived.
    NeverArrived,
}

#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) acknowledged: bool,
    pub(super) delay_ms: Option<i64>,
    pub(super) mishaps: Vec<Mishap>,
    pub(super) ending: Ending,
}

/// One job's part of a history.
#[derive(Debug, Clone)]
pub(super) struct Life {
    pub(super) id: String,
    pub(super) events: Vec<Event>,
    pub(super) stored: Option<Stored>,
}

impl Life {
    pub(super) fn lead(id: &str, plan: &Plan, start_at: i64) -> Life {
        let mut life = Life { id: id.to_owned(), events: Vec::new(), stored: None };
        let run_at = plan.delay_ms.map(|delay_ms| start_at + delay_ms);
        life.events.push(Event::Sent { id: id.to_owned(), at: start_at, run_at });
        if matches!(plan.ending, Ending::NeverArrived) {
            return life;
        }
        if plan.acknowledged {
            life.events.push(Event::Acknowledged { id: id.to_owned(), at: start_at + 2 });
        }
        let mut now = run_at.unwrap_or(start_at) + 10;
        let mut run = 0;
        for mishap in &plan.mishaps {
            run += 1;
            life.suffer(*mishap, run, now);
            now += 1_000;
        }
        run += 1;
        life.end(plan.ending, run, now);
        life
    }

    /// One run that does not end the job. The next one starts 1,000 ms after `now`.
    pub(super) fn suffer(&mut self, mishap: Mishap, run: u64, now: i64) {
        let next = now + 1_000;
        match mishap {
            Mishap::Failed => self.run(&[(Phase::Started, now), (Phase::Failed, now + 5)], run),
            Mishap::FailedLate => self.run(&[(Phase::Started, now), (Phase::Failed, next + LAG_MS)], run),
            Mishap::Released => self.run(&[(Phase::Started, now), (Phase::Released, now + 5)], run),
            Mishap::Killed => {
                self.run(&[(Phase::Started, now)], run);
                self.fault(FaultKind::Kill, run, now + 100, now + 101);
            }
            Mishap::Stopped => {
                self.run(&[(Phase::Started, now), (Phase::Finished, next + 600)], run);
                self.fault(FaultKind::Stop, run, now + 100, next + 500);
            }
            Mishap::StoppedBeforeStart => {
                self.run(&[(Phase::Started, next + 500 + LAG_MS)], run);
                self.fault(FaultKind::Stop, run, now, next + 500);
            }
            Mishap::Terminated => {
                self.run(&[(Phase::Started, now)], run);
                self.fault(FaultKind::Term, run, now + 100, now + 300);
            }
        }
    }

    pub(super) fn end(&mut self, ending: Ending, run: u64, now: i64) {
        match ending {
            Ending::Done => {
                self.run(&[(Phase::Started, now), (Phase::Finished, now + 5), (Phase::Accepted, now + 700)], run);
                self.keep("done", 1);
            }
            Ending::DoneAndRemoved => {
                self.run(&[(Phase::Started, now), (Phase::Finished, now + 5), (Phase::Accepted, now + 700)], run);
            }
            Ending::RemovedUnseen => {
                self.run(&[(Phase::Started, now), (Phase::Finished, now + 5)], run);
                self.fault(FaultKind::Kill, run, now + 6, now + 7);
            }
            Ending::Dead => {
                self.run(&[(Phase::Started, now), (Phase::Accepted, now + 700)], run);
                self.keep("dead", 1);
            }
            Ending::StillReady => self.keep("ready", 0),
            Ending::NeverArrived => unreachable!("such a life has no runs"),
        }
    }

    pub(super) fn run(&mut self, phases: &[(Phase, i64)], run: u64) {
        let process = self.process(run);
        for &(phase, at) in phases {
            let (id, process) = (self.id.clone(), process.clone());
            self.events.push(Event::Run(Run { phase, id, attempt: 1, run, process, at }));
        }
    }

    pub(super) fn fault(&mut self, kind: FaultKind, run: u64, from: i64, until: i64) {
        let process = self.process(run);
        self.events.push(Event::Fault(Fault { kind, process, from, until }));
    }

    pub(super) fn keep(&mut self, state: &str, accepted: u32) {
        self.stored = Some(Stored { state: state.to_owned(), accepted, attempt: 1, recoveries: 0 });
    }

    /// Each run has a process of its own, so that no other job's fault can excuse it.
    pub(super) fn process(&self, run: u64) -> String {
        format!("{}/{run}", self.id)
    }

    pub(super) fn drop_phases(&mut self, phases: &[Phase]) {
        self.events.retain(|event| !matches!(event, Event::Run(run) if phases.contains(&run.phase)));
    }

    pub(super) fn last(&self, phase: Phase) -> Run {
        let runs = self.events.iter().filter_map(|event| match event {
            Event::Run(run) if run.phase == phase => Some(run.clone()),
            _ => None,
        });
        runs.max_by_key(|run| run.run).expect("the victim ran to its end")
    }

    /// Sets the time of the job so that its first run started `ms` before it.
    pub(super) fn move_run_at(&mut self, ms: i64) {
        let starts = self.events.iter().filter_map(|event| match event {
            Event::Run(run) if run.phase == Phase::Started => Some(run.at),
            _ => None,
        });
        let first = starts.min().expect("the victim ran");
        for event in &mut self.events {
            if let Event::Sent { run_at, .. } = event {
                *run_at = Some(first + ms);
            }
        }
    }
}

pub(super) fn history(lives: &[Life]) -> History {
    let allowances = Allowances { skew_ms: SKEW_MS, lag_ms: LAG_MS, removed_when_done: true };
    let mut history = History::new(allowances);
    for life in lives {
        life.events.iter().cloned().for_each(|event| history.record(event));
        if let Some(stored) = &life.stored {
            history.store(&life.id, stored.clone());
        }
    }
    history
}

pub(super) fn lives(plans: &[Plan]) -> Vec<Life> {
    let lead = |(index, plan)| Life::lead(&format!("job-{index}"), plan, 1_000 + 7 * index as i64);
    plans.iter().enumerate().map(lead).collect()
}

pub(super) fn any_mishap() -> impl Strategy<Value = Mishap> {
    prop_oneof![
        Just(Mishap::Failed),
        Just(Mishap::FailedLate),
        Just(Mishap::Released),
        Just(Mishap::Killed),
        Just(Mishap::Stopped),
        Just(Mishap::StoppedBeforeStart),
        Just(Mishap::Terminated),
    ]
}

pub(super) fn any_plan() -> impl Strategy<Value = Plan> {
    let ending = prop_oneof![
        4 => Just(Ending::Done),
        1 => Just(Ending::DoneAndRemoved),
        1 => Just(Ending::RemovedUnseen),
        1 => Just(Ending::Dead),
        1 => Just(Ending::StillReady),
        1 => Just(Ending::NeverArrived),
    ];
    let mishaps = prop::collection::vec(any_mishap(), 0..5);
    (any::<bool>(), prop::option::of(0..5_000i64), mishaps, ending)
        .prop_map(|(acknowledged, delay_ms, mishaps, ending)| Plan { acknowledged, delay_ms, mishaps, ending })
}

/// A job that was acknowledged, lost its lease once to a stop, and was done.
pub(super) fn victim_plan() -> impl Strategy<Value = Plan> {
    any_plan().prop_map(|mut plan| {
        plan.acknowledged = true;
        plan.ending = Ending::Done;
        plan.mishaps.retain(|mishap| !matches!(mishap, Mishap::StoppedBeforeStart));
        plan.mishaps.push(Mishap::Stopped);
        plan
    })
}
