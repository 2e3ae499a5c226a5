//! Exact counts, kept beside what they count.
//!
//! Verbs note every change of a job's state here; the writer adds the sums to the tables `tally` and `day` once for
//! each transaction. So counting costs a few statements a commit, and nothing a job.

use std::collections::HashMap;

use rusqlite::{Connection, params, params_from_iter};

use crate::clock::Timestamp;
use crate::state::State;
use crate::store::Totals;

const STATES: usize = State::ALL.len();

/// What a transaction has changed so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    queues: HashMap<String, [i64; STATES]>,
    pub(super) totals: Totals,
}

impl Tally {
    /// Notes that a job of `queue` went from one state to another; `None` is "no such job".
    pub(super) fn note(&mut self, queue: &str, from: Option<State>, to: Option<State>) {
        self.note_many(queue, from, to, 1);
    }

    /// The same for several jobs at once.
    pub(super) fn note_many(&mut self, queue: &str, from: Option<State>, to: Option<State>, jobs: i64) {
        let counts = match self.queues.get_mut(queue) {
            Some(counts) => counts,
            None => self.queues.entry(queue.to_owned()).or_default(),
        };
        if let Some(from) = from {
            counts[from.code() as usize] -= jobs;
        }
        if let Some(to) = to {
            counts[to.code() as usize] += jobs;
        }
    }

    /// Whether jobs have become ready.
    pub(super) fn has_new_ready(&self) -> bool {
        self.queues.values().any(|counts| counts[State::Ready.code() as usize] > 0)
    }

    /// Adds everything to the tables, and starts from nothing.
    pub(super) fn flush(&mut self, connection: &Connection, now: Timestamp) -> rusqlite::Result<()> {
        for (queue, counts) in self.queues.drain() {
            for state in State::ALL {
                let jobs = counts[state.code() as usize];
                if jobs != 0 {
                    connection
                        .prepare_cached(
                            "INSERT INTO tally (queue, state, jobs) VALUES (?1, ?2, ?3)
                             ON CONFLICT (queue, state) DO UPDATE SET jobs = jobs + excluded.jobs",
                        )?
                        .execute(params![queue, state.code(), jobs])?;
                }
            }
        }
        let Totals { enqueued, done, failed, dead, recovered, cancelled, expired, fenced } = self.totals;
        let counts = [enqueued, done, failed, dead, recovered, cancelled, expired, fenced].map(|count| count as i64);
        if self.totals != Totals::default() {
            connection
                .prepare_cached(
                    "INSERT INTO day (day, enqueued, done, failed, dead, recovered, cancelled, expired, fenced)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
                     ON CONFLICT (day) DO UPDATE SET
                        enqueued = enqueued + excluded.enqueued, done = done + excluded.done,
                        failed = failed + excluded.failed, dead = dead + excluded.dead,
                        recovered = recovered + excluded.recovered, cancelled = cancelled + excluded.cancelled,
                        expired = expired + excluded.expired, fenced = fenced + excluded.fenced",
                )?
                .execute(params_from_iter(std::iter::once(day_of(now)).chain(counts)))?;
            self.totals = Totals::default();
        }
        Ok(())
    }
}

/// The beginning of the UTC day, in Unix milliseconds.
pub(super) fn day_of(now: Timestamp) -> i64 {
    now.as_millis().div_euclid(DAY_MS) * DAY_MS
}

pub(super) const DAY_MS: i64 = 24 * 60 * 60 * 1_000;
