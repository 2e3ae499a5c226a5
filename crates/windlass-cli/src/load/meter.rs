//! Watches the jobs of a run in one process: exact counts, latencies, and a journal if one is wanted.
//!
//! Handlers call it at their beginning and end, the server tells it what the store has taken. What the meters of
//! several processes saw is added up in one of them.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use windlass::checker::{Event as Line, Journal, Phase, Run};
use windlass::event::{Event, Subscriber};
use windlass::job::LeaseToken;
use windlass::store::Verdict;
use windlass::{Context, HandlerError};

use super::bodies::{Mix, Parcel};
use super::http::{Requests, requests};
use super::latency::{Exported, Percentiles, Spans};
use super::ledger::{Ledger, RunId};

/// Now, in Unix microseconds: what processes of one machine agree about.
pub(super) fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

/// Everything one process knows of a run. Shared by reference.
pub(super) struct Meter {
    mix: Mix,
    ledger: Ledger,
    requests: Requests,
    /// For each body.
    gauges: Vec<Gauges>,
    last_landing_us: AtomicU64,
    /// How many outcomes somebody waits for.
    goal: AtomicU64,
    is_there: Notify,
    members_lost: AtomicU64,
    fenced: AtomicU64,
    diary: Option<Diary>,
}

impl std::fmt::Debug for Meter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Meter").field("landed", &self.ledger.landed()).finish_non_exhaustive()
    }
}

/// The latencies of one body.
#[derive(Debug)]
struct Gauges {
    from_due: Spans,
    from_call: Spans,
    runs: Spans,
}

/// The latencies of one body, for people.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Latencies {
    /// As it was written.
    pub(super) body: String,
    /// From the instant the push was due to the start of the handler.
    pub(super) due_to_start: Option<Percentiles>,
    /// From the beginning of the push to the start of the handler.
    pub(super) push_to_start: Option<Percentiles>,
    /// The handler.
    pub(super) run: Option<Percentiles>,
}

/// What a meter gives to the meter of another process. The marks travel beside it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Findings {
    strangers: u64,
    members_lost: u64,
    fenced: u64,
    from_due: Vec<Exported>,
    from_call: Vec<Exported>,
    runs: Vec<Exported>,
}

impl Meter {
    pub(super) fn new(run: RunId, jobs: u32, mix: Mix) -> Meter {
        let gauges =
            mix.names().map(|_| Gauges { from_due: Spans::new(), from_call: Spans::new(), runs: Spans::new() });
        Meter {
            gauges: gauges.collect(),
            mix,
            ledger: Ledger::new(run, jobs),
            requests: requests(),
            last_landing_us: AtomicU64::new(0),
            goal: AtomicU64::new(u64::MAX),
            is_there: Notify::new(),
            members_lost: AtomicU64::new(0),
            fenced: AtomicU64::new(0),
            diary: None,
        }
    }

    /// Also writes a journal for the checker, as `process`.
    pub(super) fn with_journal(mut self, folder: &Path, process: &str) -> anyhow::Result<Meter> {
        let journal = Journal::open(folder.join(format!("{process}.journal"))).context("--journal")?;
        self.diary = Some(Diary { journal, process: process.to_owned() });
        Ok(self)
    }

    pub(super) fn mix(&self) -> &Mix {
        &self.mix
    }

    pub(super) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub(super) fn requests(&self) -> &Requests {
        &self.requests
    }

    /// A handler begins.
    pub(super) fn begin(&self, parcel: &Parcel, ctx: &Context) -> Result<Instant, HandlerError> {
        let now = now_us();
        self.ledger.note_started(ctx.id());
        if let Some(gauges) = self.gauges.get(parcel.share()) {
            gauges.from_due.note(Duration::from_micros(now.saturating_sub(parcel.due_us)));
            gauges.from_call.note(Duration::from_micros(now.saturating_sub(parcel.called_us)));
        }
        self.note_run(Phase::Started, ctx)?;
        Ok(Instant::now())
    }

    /// A handler has succeeded.
    pub(super) fn end(&self, parcel: &Parcel, since: Instant, ctx: &Context) -> Result<(), HandlerError> {
        if let Some(gauges) = self.gauges.get(parcel.share()) {
            gauges.runs.note(since.elapsed());
        }
        self.note_run(Phase::Finished, ctx)
    }

    /// A push begins. Said before the call, for a push without an answer may have happened.
    pub(super) fn note_sent(&self, number: u32, id: windlass::JobId) -> std::io::Result<()> {
        self.ledger.note_sent(number);
        let line = || Line::Sent { id: id.to_string(), at: now_ms(), run_at: None };
        self.diary.as_ref().map_or(Ok(()), |diary| diary.journal.record(&line()))
    }

    /// A push was answered.
    pub(super) fn note_acknowledged(&self, number: u32, id: windlass::JobId) -> std::io::Result<()> {
        self.ledger.note_acknowledged(number);
        let line = || Line::Acknowledged { id: id.to_string(), at: now_ms() };
        self.diary.as_ref().map_or(Ok(()), |diary| diary.journal.record(&line()))
    }

    /// When the store took the last outcome, in Unix microseconds; 0 before the first.
    pub(super) fn last_landing_us(&self) -> u64 {
        self.last_landing_us.load(Ordering::Relaxed)
    }

    /// Waits until the store has taken `goal` outcomes.
    pub(super) async fn until_landed(&self, goal: u64) {
        // ORDER: SeqCst; with the addition in `note_landed` and the load after it: either the counter is seen here to
        // be high enough, or the goal is seen there.
        self.goal.store(goal, Ordering::SeqCst);
        while self.ledger.landed() < goal {
            // Somebody else may have counted between the look and the wait; the permit of `notify_one` is kept.
            self.is_there.notified().await;
        }
    }

    /// Memberships lost, and outcomes refused for it.
    pub(super) fn accidents(&self) -> (u64, u64) {
        (self.members_lost.load(Ordering::Relaxed), self.fenced.load(Ordering::Relaxed))
    }

    pub(super) fn latencies(&self) -> Vec<Latencies> {
        let of = |(body, gauges): (&str, &Gauges)| Latencies {
            body: body.to_owned(),
            due_to_start: gauges.from_due.percentiles(),
            push_to_start: gauges.from_call.percentiles(),
            run: gauges.runs.percentiles(),
        };
        self.mix.names().zip(&self.gauges).map(of).collect()
    }

    /// What was seen here, with the marks of the ledger.
    pub(super) fn export(&self) -> (Findings, Vec<u8>) {
        let (marks, strangers) = self.ledger.export();
        let (members_lost, fenced) = self.accidents();
        let all = |spans: fn(&Gauges) -> &Spans| self.gauges.iter().map(|gauges| spans(gauges).export()).collect();
        let findings = Findings {
            strangers,
            members_lost,
            fenced,
            from_due: all(|gauges| &gauges.from_due),
            from_call: all(|gauges| &gauges.from_call),
            runs: all(|gauges| &gauges.runs),
        };
        (findings, marks)
    }

    /// Adds what the meter of another process saw.
    pub(super) fn add(&self, findings: &Findings, marks: &[u8]) {
        self.ledger.add(marks, findings.strangers);
        self.members_lost.fetch_add(findings.members_lost, Ordering::Relaxed);
        self.fenced.fetch_add(findings.fenced, Ordering::Relaxed);
        for (index, gauges) in self.gauges.iter().enumerate() {
            let add = |spans: &Spans, exported: &[Exported]| exported.get(index).map(|exported| spans.add(exported));
            add(&gauges.from_due, &findings.from_due);
            add(&gauges.from_call, &findings.from_call);
            add(&gauges.runs, &findings.runs);
        }
    }

    fn note_run(&self, phase: Phase, ctx: &Context) -> Result<(), HandlerError> {
        let noted = self
            .diary
            .as_ref()
            .map_or(Ok(()), |diary| diary.note(phase, ctx.id().to_string(), ctx.attempt(), ctx.fencing_token()));
        noted.map_err(|error| HandlerError::with_class("Journal", error))
    }

    fn note_landed(&self, token: &LeaseToken, verdict: &Verdict) {
        let phase = match verdict {
            Verdict::Release | Verdict::Snooze { .. } => Phase::Released,
            Verdict::Retry { .. } => Phase::Failed,
            Verdict::Done { .. } | Verdict::Dead { .. } | Verdict::Discard | Verdict::Cancelled { .. } => {
                Phase::Accepted
            }
        };
        if let Some(diary) = &self.diary
            && let Err(error) = diary.note(phase, token.job().to_string(), 0, token.run())
        {
            // Panics are kept apart by the server, and a journal with a hole would accuse the store.
            panic!("{error}");
        }
        if phase == Phase::Accepted {
            self.last_landing_us.fetch_max(now_us(), Ordering::Relaxed);
            let landed = self.ledger.note_landed(token.job(), !matches!(verdict, Verdict::Done { .. }));
            if landed >= self.goal.load(Ordering::SeqCst) {
                self.is_there.notify_one();
            }
        }
    }
}

impl Subscriber for Meter {
    fn event(&self, event: &Event<'_>) {
        match event {
            Event::Landed { token, verdict, .. } => self.note_landed(token, verdict),
            Event::Fenced { .. } => _ = self.fenced.fetch_add(1, Ordering::Relaxed),
            Event::MemberLost { .. } => _ = self.members_lost.fetch_add(1, Ordering::Relaxed),
            _ => {}
        }
    }
}

/// The journal of this process.
#[derive(Debug)]
struct Diary {
    journal: Journal,
    process: String,
}

impl Diary {
    fn note(&self, phase: Phase, id: String, attempt: u32, run: u64) -> std::io::Result<()> {
        self.journal.record(&Line::Run(Run { phase, id, attempt, run, process: self.process.clone(), at: now_ms() }))
    }
}

fn now_ms() -> i64 {
    (now_us() / 1_000) as i64
}
