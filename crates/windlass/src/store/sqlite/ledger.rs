//! The verbs that move jobs along their lives, as statements inside the writer's transaction.
//!
//! Every change of state names the state it expects in its `WHERE`, so a statement either finds the job where the
//! table of transitions wants it, or changes nothing. A verb that refuses does so before its first change.

use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, params};

use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::{ErrorInfo, JobId, JobRecord, LeaseToken, LeasedJob, NewJob, Payload, Settings};
use crate::state::State;
use crate::store::sqlite::rows::{self, error_text, id_from, settings_text};
use crate::store::sqlite::tally::Tally;
use crate::store::{
    Finished, Inserted, LeasePlan, MemberId, MemberInfo, Orders, ProcessOrder, ProcessTarget, Promoted, RECOVERIES_MAX,
    RECOVERIES_SUSPECT, RECOVERY_WINDOW, Reaped, Take, Verdict, Vitals,
};

/// What a verb answers: its answer, or why the contract refuses it, or what SQLite said.
pub(super) type Answer<T> = Result<T, Refusal>;

/// Why a verb did nothing.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The contract says no; the transaction goes on.
    Contract(StoreError),
    /// SQLite failed; the transaction is over.
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for Refusal {
    fn from(error: rusqlite::Error) -> Refusal {
        Refusal::Sqlite(error)
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Refusal {
        Refusal::Contract(error)
    }
}

/// The store in the middle of a transaction.
pub(super) struct Ledger<'a> {
    pub(super) connection: &'a Connection,
    pub(super) tally: &'a mut Tally,
    pub(super) now: Timestamp,
}

/// What is needed of a job to end or hand on its run.
struct Held {
    seq: i64,
    queue: String,
    at_most_once: bool,
    cancel_asked: bool,
    recoveries: u32,
    window_at: Option<i64>,
}

impl Ledger<'_> {
    pub(super) fn sql(&self, text: &str) -> rusqlite::Result<CachedStatement<'_>> {
        self.connection.prepare_cached(text)
    }

    pub(super) fn now_ms(&self) -> i64 {
        self.now.as_millis()
    }

    pub(super) fn insert(&mut self, batch: &[NewJob]) -> Answer<Vec<Inserted>> {
        let now = self.now_ms();
        let mut statement = self.connection.prepare_cached(
            "INSERT INTO job (id, kind, queue, state, run_at, state_at, enqueued_at, at_most_once, payload, settings, expires_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7, ?8, ?9, ?10) ON CONFLICT (id) DO NOTHING",
        )?;
        let mut answers = Vec::with_capacity(batch.len());
        for job in batch {
            let state = if job.run_at > self.now { State::Scheduled } else { State::Ready };
            let inserted = statement.execute(params![
                job.id.as_bytes(),
                job.kind,
                job.queue,
                state.code(),
                job.run_at.as_millis(),
                now,
                job.at_most_once,
                job.payload.as_bytes(),
                settings_text(&job.settings),
                job.expires_at.map(Timestamp::as_millis),
            ])?;
            if inserted == 1 {
                self.tally.note(&job.queue, None, Some(state));
                self.tally.totals.enqueued += 1;
                answers.push(Inserted::Accepted(job.id));
            } else {
                answers.push(Inserted::Duplicate(job.id));
            }
        }
        Ok(answers)
    }

    pub(super) fn restore(&mut self, batch: &[JobRecord]) -> Answer<Vec<Inserted>> {
        batch.iter().map(|job| self.restore_one(job)).collect()
    }

    fn restore_one(&mut self, job: &JobRecord) -> Answer<Inserted> {
        let now = self.now_ms();
        let began = if job.state.is_final() { job.finished_at.map_or(now, Timestamp::as_millis) } else { now };
        let inserted = self
            .sql(
                "INSERT INTO job (id, kind, queue, state, attempt, run, run_at, state_at, enqueued_at, at_most_once,
                                  payload, settings, expires_at, recoveries, window_at, failed_at, keep_until, reason,
                                  error, result)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)
                 ON CONFLICT (id) DO NOTHING",
            )?
            .execute(params![
                job.id.as_bytes(),
                job.kind,
                job.queue,
                job.state.code(),
                job.attempt,
                job.run as i64,
                job.run_at.as_millis(),
                began,
                job.enqueued_at.as_millis(),
                job.at_most_once,
                job.payload.as_bytes(),
                settings_text(&job.settings),
                job.expires_at.map(Timestamp::as_millis),
                job.recoveries,
                (job.recoveries > 0).then_some(now),
                job.failed_at.map(Timestamp::as_millis),
                job.keep_until.map(Timestamp::as_millis),
                job.reason,
                error_text(job.error.as_ref()),
                job.result.as_ref().map(Payload::as_bytes),
            ])?;
        if inserted == 0 {
            return Ok(Inserted::Duplicate(job.id));
        }
        self.tally.note(&job.queue, None, Some(job.state));
        Ok(Inserted::Accepted(job.id))
    }

    /// The key of a member that still has its rights.
    fn member_key(&self, tried: &'static str, member: &MemberId) -> Answer<i64> {
        let mut statement = self.sql("SELECT key FROM member WHERE id = ?1 AND is_lost = 0")?;
        let key = statement.query_row([member.as_str()], |row| row.get(0)).optional()?;
        Ok(key.ok_or_else(|| StoreError::Fenced { tried, member: member.to_string() })?)
    }

    pub(super) fn lease(&mut self, member: &MemberId, plan: &LeasePlan) -> Answer<Vec<LeasedJob>> {
        let key = self.member_key("lease", member)?;
        let mut leased = Vec::new();
        for take in &plan.takes {
            let wanted = take.max.min(plan.max - leased.len());
            if wanted > 0 && !self.is_paused(&take.queue)? {
                self.lease_from(take, wanted, key, &mut leased)?;
            }
        }
        Ok(leased)
    }

    /// Takes from one queue until there is enough or nothing: what has expired is put aside, suspects may be passed
    /// over, and neither counts.
    fn lease_from(&mut self, take: &Take, mut wanted: usize, key: i64, leased: &mut Vec<LeasedJob>) -> Answer<()> {
        let mut after = (i64::MIN, i64::MIN);
        while wanted > 0 {
            let found = self.ready_after(&take.queue, after, wanted)?;
            let was_full = found.len() == wanted;
            for (mut job, expires_at) in found {
                after = (job.run_at.as_millis(), job.token.row);
                if expires_at.is_some_and(|at| at <= self.now_ms()) && job.token.run == 0 {
                    self.expire(job.token.row, &take.queue, State::Ready)?;
                    continue;
                }
                if job.recoveries >= RECOVERIES_SUSPECT && self.holds_suspect(key)? {
                    continue;
                }
                job.at_most_once |= take.at_most_once;
                self.lease_one(&mut job, key)?;
                leased.push(job);
                wanted -= 1;
            }
            if !was_full {
                break;
            }
        }
        Ok(())
    }

    fn holds_suspect(&self, key: i64) -> Answer<bool> {
        let mut statement =
            self.sql("SELECT 1 FROM job INDEXED BY job_ledger WHERE state = 2 AND member = ?1 AND recoveries >= ?2")?;
        Ok(statement.exists(params![key, RECOVERIES_SUSPECT])?)
    }

    fn is_paused(&self, queue: &str) -> Answer<bool> {
        Ok(self.sql("SELECT 1 FROM paused WHERE queue = ?1")?.exists([queue])?)
    }

    /// The first ready jobs of a queue after a place in it, as they are before their lease.
    fn ready_after(&self, queue: &str, after: (i64, i64), max: usize) -> Answer<Vec<(LeasedJob, Option<i64>)>> {
        let mut statement = self.sql(
            "SELECT seq, id, kind, payload, attempt, run, recoveries, enqueued_at, run_at, failed_at, at_most_once,
                    settings, expires_at
             FROM job INDEXED BY job_ready
             WHERE state = 1 AND queue = ?1 AND run_at >= ?3 AND (run_at, seq) > (?3, ?4)
             ORDER BY run_at, seq LIMIT ?2",
        )?;
        let parameters = params![queue, max as i64, after.0, after.1];
        let rows = statement.query_map(parameters, |row| Ok((ready_job(row, queue)?, row.get(12)?)))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    fn lease_one(&mut self, job: &mut LeasedJob, key: i64) -> Answer<()> {
        job.attempt += 1;
        job.token.run += 1;
        self.sql(
            "UPDATE job SET state = 2, attempt = ?2, run = ?3, member = ?4, state_at = ?5, at_most_once = ?6
             WHERE seq = ?1 AND state = 1",
        )?
        .execute(params![
            job.token.row,
            job.attempt,
            job.token.run as i64,
            key,
            self.now_ms(),
            job.at_most_once
        ])?;
        self.tally.note(&job.queue, Some(State::Ready), Some(State::Running));
        Ok(())
    }

    pub(super) fn finish(&mut self, member: &MemberId, verdicts: &[(LeaseToken, Verdict)]) -> Answer<Vec<Finished>> {
        let key = match self.member_key("finish", member) {
            Ok(key) => key,
            Err(Refusal::Contract(_)) => {
                self.tally.totals.fenced += verdicts.len() as u64;
                return Ok(vec![Finished::Fenced; verdicts.len()]);
            }
            Err(error) => return Err(error),
        };
        let mut answers = Vec::with_capacity(verdicts.len());
        for (token, verdict) in verdicts {
            answers.push(self.finish_one(key, *token, verdict)?);
        }
        Ok(answers)
    }

    fn finish_one(&mut self, key: i64, token: LeaseToken, verdict: &Verdict) -> Answer<Finished> {
        let queue = match verdict {
            // The commonest end by far: one statement.
            Verdict::Done { keep, .. } if keep.is_zero() => self.remove_held(key, token)?,
            Verdict::Discard => self.remove_held(key, token)?,
            _ => self.held_queue(key, token)?,
        };
        let Some(queue) = queue else {
            self.tally.totals.fenced += 1;
            return Ok(Finished::Fenced);
        };
        self.apply(token.row, &queue, verdict)?;
        Ok(Finished::Landed)
    }

    /// Removes a job if the token is good, and answers its queue.
    fn remove_held(&self, key: i64, token: LeaseToken) -> Answer<Option<String>> {
        let mut statement = self.sql(
            "DELETE FROM job WHERE seq = ?1 AND id = ?2 AND member = ?3 AND run = ?4 AND state = 2 RETURNING queue",
        )?;
        let parameters = params![token.row, token.job.as_bytes(), key, token.run as i64];
        Ok(statement.query_row(parameters, |row| row.get(0)).optional()?)
    }

    /// The queue of a job if the token is good.
    fn held_queue(&self, key: i64, token: LeaseToken) -> Answer<Option<String>> {
        let mut statement =
            self.sql("SELECT queue FROM job WHERE seq = ?1 AND id = ?2 AND member = ?3 AND run = ?4 AND state = 2")?;
        let parameters = params![token.row, token.job.as_bytes(), key, token.run as i64];
        Ok(statement.query_row(parameters, |row| row.get(0)).optional()?)
    }

    fn apply(&mut self, seq: i64, queue: &str, verdict: &Verdict) -> Answer<()> {
        match verdict {
            Verdict::Done { result, keep } => {
                self.tally.totals.done += 1;
                if keep.is_zero() {
                    self.tally.note(queue, Some(State::Running), None);
                    return Ok(());
                }
                let keep_until = (self.now + *keep).as_millis();
                self.sql(
                    "UPDATE job SET state = 4, member = 0, cancel_asked = 0, state_at = ?2, keep_until = ?3, result = ?4
                     WHERE seq = ?1",
                )?
                .execute(params![seq, self.now_ms(), keep_until, result.as_ref().map(Payload::as_bytes)])?;
                self.tally.note(queue, Some(State::Running), Some(State::Done));
            }
            Verdict::Discard => {
                self.tally.totals.failed += 1;
                self.tally.note(queue, Some(State::Running), None);
            }
            Verdict::Retry { at, error } => {
                self.tally.totals.failed += 1;
                self.sql(
                    "UPDATE job SET state = 3, member = 0, cancel_asked = 0, state_at = ?2, run_at = ?3, error = ?4,
                                    failed_at = coalesce(failed_at, ?2) WHERE seq = ?1",
                )?
                .execute(params![
                    seq,
                    self.now_ms(),
                    at.as_millis(),
                    rows::error_text(Some(error))
                ])?;
                self.tally.note(queue, Some(State::Running), Some(State::Retry));
            }
            Verdict::Dead { reason, error } => {
                self.tally.totals.failed += 1;
                self.fail(seq, error.as_ref())?;
                self.end_held(seq, queue, State::Dead, reason)?;
            }
            Verdict::Snooze { until } => self.give_back(seq, queue, State::Scheduled, Some(*until))?,
            Verdict::Release => self.give_back(seq, queue, State::Ready, None)?,
            Verdict::Cancelled { reason } => self.end_held(seq, queue, State::Cancelled, reason)?,
        }
        Ok(())
    }

    fn fail(&self, seq: i64, error: Option<&ErrorInfo>) -> Answer<()> {
        self.sql("UPDATE job SET error = ?2, failed_at = coalesce(failed_at, ?3) WHERE seq = ?1")?.execute(params![
            seq,
            rows::error_text(error),
            self.now_ms()
        ])?;
        Ok(())
    }

    /// Ends a running job among the dead or the cancelled.
    fn end_held(&mut self, seq: i64, queue: &str, to: State, reason: &str) -> Answer<()> {
        self.end(seq, queue, State::Running, to, reason)
    }

    /// Ends a job among the dead or the cancelled.
    pub(super) fn end(&mut self, seq: i64, queue: &str, from: State, to: State, reason: &str) -> Answer<()> {
        self.sql(
            "UPDATE job SET state = ?2, member = 0, cancel_asked = 0, state_at = ?3, reason = ?4, keep_until = NULL
             WHERE seq = ?1",
        )?
        .execute(params![seq, to.code(), self.now_ms(), reason])?;
        self.tally.note(queue, Some(from), Some(to));
        match to {
            State::Dead => self.tally.totals.dead += 1,
            State::Cancelled => self.tally.totals.cancelled += 1,
            _ => {}
        }
        Ok(())
    }

    fn expire(&mut self, seq: i64, queue: &str, from: State) -> Answer<()> {
        self.tally.totals.expired += 1;
        self.end(seq, queue, from, State::Dead, "expired")
    }

    /// Takes a job out of its ledger with its attempt given back.
    fn give_back(&mut self, seq: i64, queue: &str, to: State, run_at: Option<Timestamp>) -> Answer<()> {
        self.sql(
            "UPDATE job SET state = ?2, member = 0, cancel_asked = 0, attempt = attempt - 1, state_at = ?3,
                            run_at = coalesce(?4, run_at) WHERE seq = ?1",
        )?
        .execute(params![seq, to.code(), self.now_ms(), run_at.map(Timestamp::as_millis)])?;
        self.tally.note(queue, Some(State::Running), Some(to));
        Ok(())
    }

    pub(super) fn promote(&mut self, max: usize) -> Answer<Promoted> {
        let mut promoted = Promoted::default();
        for (seq, queue, state, is_expired) in self.due(max)? {
            if is_expired {
                self.expire(seq, &queue, state)?;
                promoted.expired += 1;
            } else {
                self.sql("UPDATE job SET state = 1, state_at = ?2 WHERE seq = ?1")?
                    .execute(params![seq, self.now_ms()])?;
                self.tally.note(&queue, Some(state), Some(State::Ready));
                promoted.ready += 1;
            }
        }
        let mut next =
            self.sql("SELECT run_at FROM job INDEXED BY job_due WHERE state IN (0, 3) ORDER BY run_at LIMIT 1")?;
        promoted.next_due = next.query_row([], |row| row.get(0)).optional()?.map(Timestamp::from_millis);
        Ok(promoted)
    }

    fn due(&self, max: usize) -> Answer<Vec<(i64, String, State, bool)>> {
        let mut statement = self.sql(
            "SELECT seq, queue, state, state = 0 AND run = 0 AND expires_at <= ?1
             FROM job INDEXED BY job_due WHERE state IN (0, 3) AND run_at <= ?1 ORDER BY run_at, seq LIMIT ?2",
        )?;
        let rows = statement.query_map(params![self.now_ms(), max as i64], |row| {
            let is_expired: Option<bool> = row.get(3)?;
            Ok((row.get(0)?, row.get(1)?, rows::state_from(row, 2)?, is_expired.unwrap_or(false)))
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    pub(super) fn join(&mut self, info: &MemberInfo, lease_ms: i64) -> Answer<()> {
        let is_taken = self.sql("SELECT 1 FROM member WHERE id = ?1")?.exists([info.id.as_str()])?;
        if is_taken {
            let detail = format!("member {} is there already: each start needs a new identity", info.id);
            return Err(StoreError::Invalid { tried: "join", detail }.into());
        }
        self.sql(
            "INSERT INTO member (id, info, lease_ms, lease_until, joined_at, beat_at, vitals)
             VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6)",
        )?
        .execute(params![
            info.id.as_str(),
            rows::json_text(info),
            lease_ms,
            self.now_ms().saturating_add(lease_ms),
            self.now_ms(),
            rows::json_text(&Vitals::default()),
        ])?;
        Ok(())
    }

    pub(super) fn beat(&mut self, member: &MemberId, vitals: Vitals) -> Answer<Orders> {
        let key = self.member_key("beat", member)?;
        let orders: i64 = self.sql("SELECT orders FROM member WHERE key = ?1")?.query_row([key], |row| row.get(0))?;
        self.sql(
            "UPDATE member SET lease_until = ?2 + lease_ms, beat_at = ?2, vitals = ?3, orders = 0 WHERE key = ?1",
        )?
        .execute(params![key, self.now_ms(), rows::json_text(&vitals)])?;
        let mut statement =
            self.sql("SELECT seq, id, run FROM job INDEXED BY job_ledger WHERE state = 2 AND member = ?1 AND cancel_asked = 1 ORDER BY seq")?;
        let tokens = statement.query_map([key], |row| {
            Ok(LeaseToken { job: id_from(row, 1)?, run: row.get::<_, i64>(2)? as u64, row: row.get(0)? })
        })?;
        let process = ProcessOrder::ALL.into_iter().filter(|order| orders & bit_of(*order) != 0).collect();
        Ok(Orders { cancel: tokens.collect::<rusqlite::Result<_>>()?, process })
    }

    pub(super) fn order(&mut self, to: &ProcessTarget, order: ProcessOrder) -> Answer<usize> {
        let id = match to {
            ProcessTarget::One(id) => Some(id.as_str()),
            ProcessTarget::All => None,
        };
        let mut statement =
            self.sql("UPDATE member SET orders = orders | ?1 WHERE is_lost = 0 AND (?2 IS NULL OR id = ?2)")?;
        Ok(statement.execute(params![bit_of(order), id])?)
    }

    pub(super) fn leave(&mut self, member: &MemberId) -> Answer<usize> {
        let key = match self.member_key("leave", member) {
            Ok(key) => key,
            // Somebody has reaped it: there is nothing left to leave.
            Err(Refusal::Contract(_)) => return Ok(0),
            Err(error) => return Err(error),
        };
        let held = self.held(key, usize::MAX)?;
        for job in &held {
            if job.at_most_once {
                self.end_held(job.seq, &job.queue, State::Dead, "interrupted")?;
            } else {
                self.give_back(job.seq, &job.queue, State::Ready, None)?;
            }
        }
        self.forget_member(key)?;
        Ok(held.len())
    }

    fn forget_member(&self, key: i64) -> Answer<()> {
        self.sql("DELETE FROM member WHERE key = ?1")?.execute([key])?;
        Ok(())
    }

    /// The jobs in a member's ledger.
    fn held(&self, key: i64, max: usize) -> Answer<Vec<Held>> {
        let mut statement = self.sql(
            "SELECT seq, queue, at_most_once, cancel_asked, recoveries, window_at
             FROM job INDEXED BY job_ledger WHERE state = 2 AND member = ?1 ORDER BY seq LIMIT ?2",
        )?;
        let limit = i64::try_from(max).unwrap_or(-1);
        let rows = statement.query_map(params![key, limit], |row| {
            Ok(Held {
                seq: row.get(0)?,
                queue: row.get(1)?,
                at_most_once: row.get(2)?,
                cancel_asked: row.get(3)?,
                recoveries: row.get(4)?,
                window_at: row.get(5)?,
            })
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    pub(super) fn reap(&mut self, max: usize) -> Answer<Reaped> {
        let mut reaped = Reaped { members: self.take_rights()?, ..Reaped::default() };
        let lost: Vec<i64> = {
            let mut statement = self.sql("SELECT key FROM member WHERE is_lost = 1 ORDER BY key")?;
            statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?
        };
        for key in lost {
            let room = max - (reaped.recovered + reaped.dead + reaped.cancelled);
            for job in self.held(key, room)? {
                self.recover(&job, &mut reaped)?;
            }
            if self.held(key, 1)?.is_empty() {
                self.forget_member(key)?;
            } else {
                reaped.more = true;
            }
        }
        Ok(reaped)
    }

    /// Takes their rights from members whose lease has run out.
    fn take_rights(&mut self) -> Answer<Vec<MemberId>> {
        let mut statement =
            self.sql("UPDATE member SET is_lost = 1 WHERE is_lost = 0 AND lease_until <= ?1 RETURNING id")?;
        let ids = statement.query_map([self.now_ms()], |row| row.get::<_, String>(0).map(MemberId::from))?;
        let mut ids: Vec<MemberId> = ids.collect::<rusqlite::Result<_>>()?;
        ids.sort_unstable();
        Ok(ids)
    }

    /// What becomes of one job of a lost member.
    fn recover(&mut self, job: &Held, reaped: &mut Reaped) -> Answer<()> {
        self.tally.totals.recovered += 1;
        if job.cancel_asked {
            reaped.cancelled += 1;
            return self.end_held(job.seq, &job.queue, State::Cancelled, "asked to cancel");
        }
        let window_ms = RECOVERY_WINDOW.as_millis() as i64;
        let (recoveries, window_at) = match job.window_at {
            Some(began) if self.now_ms() - began < window_ms => (job.recoveries + 1, began),
            _ => (1, self.now_ms()),
        };
        self.sql("UPDATE job SET recoveries = ?2, window_at = ?3 WHERE seq = ?1")?
            .execute(params![job.seq, recoveries, window_at])?;
        if job.at_most_once {
            reaped.dead += 1;
            return self.end_held(job.seq, &job.queue, State::Dead, "interrupted");
        }
        if recoveries >= RECOVERIES_MAX {
            reaped.dead += 1;
            self.sql("UPDATE job SET attempt = attempt - 1 WHERE seq = ?1")?.execute([job.seq])?;
            return self.end_held(job.seq, &job.queue, State::Dead, "poison");
        }
        reaped.recovered += 1;
        self.give_back(job.seq, &job.queue, State::Ready, None)
    }
}

/// How an order is kept in a member's row.
fn bit_of(order: ProcessOrder) -> i64 {
    match order {
        ProcessOrder::Dump => 1,
        ProcessOrder::Quiet => 2,
        ProcessOrder::Stop => 4,
    }
}

fn ready_job(row: &Row<'_>, queue: &str) -> rusqlite::Result<LeasedJob> {
    let job: JobId = id_from(row, 1)?;
    let settings: Settings = rows::settings_from(row, 11)?;
    Ok(LeasedJob {
        token: LeaseToken { job, run: row.get::<_, i64>(5)? as u64, row: row.get(0)? },
        kind: row.get(2)?,
        queue: queue.to_owned(),
        payload: rows::payload_from(row, 3)?,
        attempt: row.get(4)?,
        recoveries: row.get(6)?,
        enqueued_at: Timestamp::from_millis(row.get(7)?),
        run_at: Timestamp::from_millis(row.get(8)?),
        failed_at: row.get::<_, Option<i64>>(9)?.map(Timestamp::from_millis),
        at_most_once: row.get(10)?,
        settings,
    })
}
