//! How many jobs there are, who runs them, what has happened.
//!
//! What Sidekiq counts stands where Sidekiq has it: `stat:processed` counts every run that ended, failed ones included,
//! `stat:failed` those that failed; the rest is ours. So the totals of a cluster include what its Ruby processes did.

use std::collections::{BTreeMap, HashMap};

use redis::{Pipeline, Value, cmd, pipe};

use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::state::State;
use crate::store::redis::engine::Engine;
use crate::store::redis::envelope::Envelope;
use crate::store::redis::find::{Found, Lair};
use crate::store::redis::keys::day_of;
use crate::store::redis::moves::Set;
use crate::store::redis::values;
use crate::store::{Counts, DayTotals, MemberInfo, ProcessInfo, QueueInfo, RunningJob, Totals, Vitals};

/// Running jobs shown for each process.
const JOBS_SHOWN: usize = 100;

/// Scheduled and retry jobs, the next due first, that are counted for their queues.
const WAITING_SEEN_MAX: usize = 5_000;

/// How often counting begins again when queues or members come or go meanwhile.
const COUNTS_MAX: u32 = 4;

/// What there is to be counted.
#[derive(Debug, PartialEq, Eq)]
struct Census {
    queues: Vec<String>,
    holders: Vec<(String, bool)>,
}

impl Engine {
    pub(super) async fn counts(&self) -> Result<Counts, StoreError> {
        let mut census = self.census().await?;
        for _ in 1..COUNTS_MAX {
            let counts = self.count(&census).await?;
            let after = self.census().await?;
            if after == census {
                return Ok(counts);
            }
            census = after;
        }
        self.count(&census).await
    }

    async fn census(&self) -> Result<Census, StoreError> {
        Ok(Census { queues: self.queue_names("counts").await?, holders: self.holders("counts").await? })
    }

    /// Counts everything in one transaction.
    async fn count(&self, census: &Census) -> Result<Counts, StoreError> {
        let keys = &self.keys;
        let mut questions = pipe();
        questions.atomic();
        for set in Set::ALL {
            questions.cmd("ZCARD").arg(set.key(keys));
        }
        for queue in &census.queues {
            questions.cmd("LLEN").arg(keys.queue(queue)).cmd("LLEN").arg(keys.suspects(queue));
        }
        for (member, is_lost) in &census.holders {
            questions.cmd("HLEN").arg(self.ledger_of(member, *is_lost).0);
        }
        ask_totals(&mut questions, keys.processed(), keys.failed(), keys.totals());
        let mut answers = self.work.pipe("counts", &questions).await?;
        let totals = totals_of("counts", answers.split_off(answers.len() - 3))?;
        let mut numbers = values::numbers("counts", Value::Array(answers))?.into_iter().map(|number| number as u64);
        let mut counts = Counts { totals, ..Counts::default() };
        for (set, number) in Set::ALL.into_iter().zip(&mut numbers) {
            *counts.of_mut(set.state()) = number;
        }
        counts.ready = numbers.by_ref().take(2 * census.queues.len()).sum();
        counts.running = numbers.sum();
        Ok(counts)
    }

    pub(super) async fn queues(&self) -> Result<Vec<QueueInfo>, StoreError> {
        let paused = self.work.query("queues", cmd("SMEMBERS").arg(self.keys.paused())).await?;
        let paused = values::texts("queues", paused)?;
        let mut queues: BTreeMap<String, QueueInfo> = BTreeMap::new();
        for (name, ready, latency_ms) in self.ready_queues().await? {
            let queue = queues.entry(name.clone()).or_insert_with(|| empty_queue(name));
            (queue.ready, queue.latency_ms) = (ready, latency_ms);
        }
        for name in paused {
            queues.entry(name.clone()).or_insert_with(|| empty_queue(name)).paused = true;
        }
        for (name, count) in self.running_by_queue().await? {
            queues.entry(name.clone()).or_insert_with(|| empty_queue(name)).running = count;
        }
        for (name, count) in self.waiting_by_queue().await? {
            queues.entry(name.clone()).or_insert_with(|| empty_queue(name)).waiting = count;
        }
        queues.retain(|_, queue| queue.paused || queue.ready + queue.running + queue.waiting > 0);
        Ok(queues.into_values().collect())
    }

    /// Each queue with its length, and how long its first job has been ready.
    async fn ready_queues(&self) -> Result<Vec<(String, u64, u64)>, StoreError> {
        let (names, now) = (self.queue_names("queues").await?, self.now());
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let mut questions = pipe();
        for name in &names {
            for key in [self.keys.queue(name), self.keys.suspects(name)] {
                questions.cmd("LLEN").arg(&key).cmd("LINDEX").arg(&key).arg(-1);
            }
        }
        let answers = self.work.pipe("queues", &questions).await?;
        let mut queues = Vec::with_capacity(names.len());
        for (name, answers) in names.into_iter().zip(answers.chunks_exact(4)) {
            let (mut ready, mut latency_ms) = (0, 0);
            for pair in answers.chunks_exact(2) {
                ready += values::number("queues", &pair[0])? as u64;
                if let Value::BulkString(first) = &pair[1] {
                    let since = Envelope::open(first).map_or(now, |envelope| envelope.run_at());
                    latency_ms = latency_ms.max(now.since(since).as_millis() as u64);
                }
            }
            queues.push((name, ready, latency_ms));
        }
        Ok(queues)
    }

    async fn running_by_queue(&self) -> Result<HashMap<String, u64>, StoreError> {
        let mut count = HashMap::new();
        for found in self.all_running("queues").await? {
            *count.entry(found.record().queue).or_default() += 1;
        }
        Ok(count)
    }

    async fn waiting_by_queue(&self) -> Result<HashMap<String, u64>, StoreError> {
        let mut count = HashMap::new();
        for set in [Set::Schedule, Set::Retry] {
            let mut first = cmd("ZRANGE");
            first.arg(set.key(&self.keys)).arg(0).arg(WAITING_SEEN_MAX - 1);
            for member in values::all_bytes("queues", self.work.query("queues", &first).await?)? {
                if let Some(envelope) = Envelope::open(&member) {
                    *count.entry(envelope.queue()).or_default() += 1;
                }
            }
        }
        Ok(count)
    }

    pub(super) async fn processes(&self) -> Result<Vec<ProcessInfo>, StoreError> {
        let range = cmd("ZRANGE").arg(self.keys.members()).arg(0).arg(-1).arg("WITHSCORES").clone();
        let mut processes = Vec::new();
        for (member, until) in values::scored("processes", self.work.query("processes", &range).await?)? {
            let member = String::from_utf8_lossy(&member).into_owned();
            processes.extend(self.process(&member, Timestamp::from_millis(until as i64)).await?);
        }
        processes.sort_by(|a, b| (a.joined_at, &a.info.id).cmp(&(b.joined_at, &b.info.id)));
        Ok(processes)
    }

    async fn process(&self, member: &str, lease_until: Timestamp) -> Result<Option<ProcessInfo>, StoreError> {
        let ledger = self.keys.ledger(member);
        let mut said = cmd("HMGET");
        said.arg(self.keys.member(member)).arg(&["info", "joined", "beat", "vitals"]);
        let said = values::maybe_bytes("processes", self.work.query("processes", &said).await?)?;
        let [Some(info), Some(joined), Some(beat), Some(vitals)] = &said[..] else { return Ok(None) };
        let Ok(info) = serde_json::from_slice::<MemberInfo>(info) else { return Ok(None) };
        let mut rows = self.rows_of("processes", &ledger).await?;
        let running = rows.len() as u64;
        rows.truncate(JOBS_SHOWN);
        let held = self.elements_of("processes", &ledger, &rows).await?;
        let jobs = held.into_iter().map(|(row, element)| {
            let lair = Lair::Ledger { member: member.to_owned(), row, is_lost: false, is_asked: false };
            running_job(&Found::new(element, lair), row.leased_at())
        });
        let instant = |bytes: &[u8]| {
            let ms = std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
            Timestamp::from_millis(ms.unwrap_or_default())
        };
        Ok(Some(ProcessInfo {
            info,
            joined_at: instant(joined),
            beat_at: instant(beat),
            lease_until,
            // Until the first beat nothing has been said.
            vitals: serde_json::from_slice::<Vitals>(vitals).unwrap_or_default(),
            running,
            jobs: jobs.collect(),
        }))
    }

    pub(super) async fn history(&self, days: u32) -> Result<Vec<DayTotals>, StoreError> {
        const DAY_MS: i64 = 24 * 60 * 60 * 1_000;
        let today = self.now().as_millis().div_euclid(DAY_MS) * DAY_MS;
        let days: Vec<Timestamp> =
            (0..i64::from(days)).map(|ago| Timestamp::from_millis(today - ago * DAY_MS)).collect();
        let mut questions = pipe();
        for day in days.iter().map(|day| day_of(*day)) {
            let keys = &self.keys;
            ask_totals(&mut questions, keys.processed_on(&day), keys.failed_on(&day), keys.totals_on(&day));
        }
        let answers = self.work.pipe("history", &questions).await?;
        let mut history = Vec::new();
        for (day, answers) in days.into_iter().zip(answers.chunks_exact(3)) {
            let totals = totals_of("history", answers.to_vec())?;
            if totals != Totals::default() {
                history.push(DayTotals { day, totals });
            }
        }
        Ok(history)
    }
}

/// Three questions whose answers [`totals_of`] reads.
fn ask_totals(questions: &mut Pipeline, processed: String, failed: String, rest: String) {
    questions.cmd("GET").arg(processed).cmd("GET").arg(failed).cmd("HGETALL").arg(rest);
}

fn totals_of(tried: &'static str, answers: Vec<Value>) -> Result<Totals, StoreError> {
    let [processed, failed, rest] = &answers[..] else { return Ok(Totals::default()) };
    let processed = values::number(tried, processed)?;
    let failed = values::number(tried, failed)?;
    let rest = values::texts(tried, rest.clone())?;
    let of = |name: &str| {
        let pair = rest.chunks_exact(2).find(|pair| pair[0] == name);
        pair.and_then(|pair| pair[1].parse().ok()).unwrap_or(0)
    };
    Ok(Totals {
        enqueued: of("enqueued"),
        done: (processed - failed).max(0) as u64,
        failed: failed.max(0) as u64,
        dead: of("dead"),
        recovered: of("recovered"),
        cancelled: of("cancelled"),
        expired: of("expired"),
        fenced: of("fenced"),
    })
}

fn empty_queue(name: String) -> QueueInfo {
    QueueInfo { name, ready: 0, running: 0, waiting: 0, latency_ms: 0, paused: false }
}

fn running_job(found: &Found, leased_at: Timestamp) -> RunningJob {
    let record = found.record();
    debug_assert_eq!(record.state, State::Running);
    RunningJob { id: record.id, kind: record.kind, queue: record.queue, leased_at, attempt: record.attempt }
}
