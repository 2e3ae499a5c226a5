//! The verbs that carry a job through its life: lease, finish, promote.
//!
//! A lease moves elements into the member's ledger as they are; what a run changes is written when the job leaves it.
//! So a process that dies has counted nothing, and its jobs go back as they were. A run that succeeds and leaves
//! nothing behind is one field less in the ledger; every other end is a move ([`crate::store::redis::moves`]).

use std::sync::{Mutex, MutexGuard};

use redis::{cmd, pipe};

use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::failpoint;
use crate::job::{ErrorInfo, LeaseToken, LeasedJob};
use crate::retry::RetryPolicy;
use crate::store::redis::engine::{Engine, Row, mark};
use crate::store::redis::envelope::{Envelope, derived_id};
use crate::store::redis::keys::day_of;
use crate::store::redis::moves::{DAYS_KEPT_S, Move, Refusal, Set, Source, Target, instant_of};
use crate::store::redis::script::{Call, FINISH, LEASE};
use crate::store::redis::values;
use crate::store::{Finished, LeasePlan, MemberId, Promoted, Take, Verdict};

/// Verdicts in one script.
const VERDICTS_LEN_MAX: usize = 1_000;

/// An element as it was leased.
struct Taken {
    /// By which take of the plan.
    take: usize,
    row: Row,
    element: Vec<u8>,
}

impl Engine {
    pub(super) async fn lease(&self, member: &MemberId, plan: LeasePlan) -> Result<Vec<LeasedJob>, StoreError> {
        failpoint::hit("redis.lease")?;
        if self.is_known_to_be_empty(&plan) {
            return Ok(Vec::new());
        }
        let (heard, asked) = (self.bell.heard(), plan.clone());
        let (mut plan, mut leased) = (plan, Vec::new());
        // Jobs that are too late or cannot be read do not count: what they leave is filled up.
        loop {
            let (jobs, refused) = self.sort_out(member, &plan, self.take(member, &plan).await?);
            let is_full = refused.is_empty();
            for (take, job) in jobs {
                plan.takes[take].max -= 1;
                plan.max -= 1;
                leased.push((take, job));
            }
            self.move_all("lease", &self.work, &refused, Refusal::IsFine).await?;
            if is_full {
                break;
            }
        }
        // Who leases changes what others wait for, and what this process holds.
        if !leased.is_empty() {
            self.bell.note();
        }
        *lock(&self.found_none) = heard.filter(|_| leased.is_empty()).map(|heard| (asked, heard));
        leased.sort_by_key(|(take, _)| *take);
        Ok(leased.into_iter().map(|(_, job)| job).collect())
    }

    /// Whether the same look found nothing a moment ago, and nothing has been heard since.
    fn is_known_to_be_empty(&self, plan: &LeasePlan) -> bool {
        lock(&self.found_none).as_ref().is_some_and(|(asked, heard)| asked == plan && self.bell.is_quiet(heard))
    }

    /// Takes elements into the ledger.
    async fn take(&self, member: &MemberId, plan: &LeasePlan) -> Result<Vec<Taken>, StoreError> {
        let block = self.next_block();
        let call = self.lease_call(member, plan, block);
        let answer = self.work.call("lease", &call).await.inspect_err(|_| self.note_unheard(member, block))?;
        let mut parts = match answer {
            redis::Value::Int(_) => return Err(fenced("lease", member)),
            answer => values::list("lease", answer)?.into_iter(),
        };
        let counts = values::numbers("lease", parts.next().unwrap_or_default())?;
        let elements = values::all_bytes("lease", parts.next().unwrap_or_default())?;
        let takes = counts.into_iter().enumerate().flat_map(|(take, count)| std::iter::repeat_n(take, count as usize));
        let taken = takes.zip(elements).enumerate().map(|(index, (take, element))| {
            let row = Row::new(block, index + 1, plan.takes[take].at_most_once);
            Taken { take, row, element }
        });
        Ok(taken.collect())
    }

    fn lease_call(&self, member: &MemberId, plan: &LeasePlan, block: i64) -> Call {
        const FIXED_KEYS: usize = 4;
        let (keys, name) = (&self.keys, member.as_str());
        let mut call = Call::new(&LEASE);
        call.key(keys.members()).key(keys.ledger(name)).key(keys.paused()).key(keys.member(name));
        call.arg(name).number(block).number(plan.max);
        for Take { queue, max, at_most_once } in &plan.takes {
            let number = call.number_of(keys.queue(queue), FIXED_KEYS);
            call.number_of(keys.suspects(queue), FIXED_KEYS);
            call.number(number).arg(queue).number(*max).arg(mark(*at_most_once));
        }
        call
    }

    /// Reads what was taken: jobs to run, and those that go to the dead instead.
    fn sort_out(&self, member: &MemberId, plan: &LeasePlan, taken: Vec<Taken>) -> (Vec<(usize, LeasedJob)>, Vec<Move>) {
        let (now, ledger) = (self.now(), self.keys.ledger(member.as_str()));
        let (mut jobs, mut refused) = (Vec::with_capacity(taken.len()), Vec::new());
        for Taken { take, row, element } in taken {
            let source = Source::Field(ledger.clone(), row.field().into_bytes());
            match Envelope::open(&element) {
                None => refused.push(self.to_the_dead_unchanged(source, element, now)),
                Some(envelope) if envelope.paid_feature().is_some() => {
                    refused.push(self.refusal(source, envelope, now))
                }
                Some(envelope) if envelope.is_expired(now) => {
                    refused.push(self.to_the_dead(source, envelope, "expired", "dx", now));
                }
                Some(envelope) => jobs.push((take, leased_job(&envelope, row, &plan.takes[take].queue))),
            }
        }
        (jobs, refused)
    }

    /// What is no job is kept as it is, for somebody to look at.
    pub(super) fn to_the_dead_unchanged(&self, source: Source, element: Vec<u8>, now: Timestamp) -> Move {
        let target = Target::Set { set: Set::Dead, score: self.score(now) };
        Move { id: derived_id(&element), source, target, element, counts: "d" }
    }

    /// What only a paid edition of Sidekiq can run is kept for it: among the retries, with the reason.
    fn refusal(&self, source: Source, mut envelope: Envelope<'_>, now: Timestamp) -> Move {
        let field = envelope.paid_feature().unwrap_or_default();
        let message =
            format!("its field {field:?} needs a paid edition of Sidekiq; a process of such a one must run it");
        envelope.begin_run(false);
        let attempt = envelope.attempt();
        let error = ErrorInfo { class: "Unsupported".to_owned(), message, backtrace: None, attempt, at: now };
        envelope.fail(Some(error), now, self.dialect);
        if attempt >= envelope.settings().attempts_max() {
            return self.to_the_dead(source, envelope, "attempts used up", "d", now);
        }
        let at = now + RetryPolicy::Sidekiq.delay(attempt, 0.5);
        let target = Target::Set { set: Set::Retry, score: self.score(at) };
        Move { id: envelope.id, source, target, element: envelope.seal(), counts: "" }
    }

    pub(super) fn to_the_dead(
        &self,
        source: Source,
        mut envelope: Envelope<'_>,
        reason: &str,
        counts: &'static str,
        now: Timestamp,
    ) -> Move {
        envelope.own.reason = Some(reason.to_owned());
        envelope.own.keep_until = None;
        let target = Target::Set { set: Set::Dead, score: self.score(now) };
        Move { id: envelope.id, source, target, element: envelope.seal(), counts }
    }

    pub(super) async fn finish(
        &self,
        member: &MemberId,
        verdicts: Vec<(LeaseToken, Verdict)>,
    ) -> Result<Vec<Finished>, StoreError> {
        failpoint::hit("redis.finish")?;
        // A suspect that ends makes room for the next one.
        self.bell.note();
        let mut answers = vec![Finished::Fenced; verdicts.len()];
        let is_plain = |verdict: &Verdict| match verdict {
            Verdict::Done { keep, .. } => keep.is_zero(),
            Verdict::Discard => true,
            _ => false,
        };
        let (plain, other): (Vec<_>, Vec<_>) =
            verdicts.into_iter().enumerate().partition(|(_, (_, verdict))| is_plain(verdict));
        for slice in plain.chunks(VERDICTS_LEN_MAX) {
            let landed = self.work.call("finish", &self.finish_call(member, slice)).await?;
            for ((index, _), landed) in slice.iter().zip(values::numbers("finish", landed)?) {
                if landed == 1 {
                    answers[*index] = Finished::Landed;
                }
            }
        }
        if !other.is_empty() {
            self.finish_by_moving(member, other, &mut answers).await?;
        }
        failpoint::hit("redis.finish.reply.lost")?;
        Ok(answers)
    }

    fn finish_call(&self, member: &MemberId, verdicts: &[(usize, (LeaseToken, Verdict))]) -> Call {
        const FIXED_KEYS: usize = 7;
        let (keys, day) = (&self.keys, day_of(self.now()));
        let mut call = Call::with_capacity(&FINISH, 48 * verdicts.len(), 4 * verdicts.len() + 1);
        call.key(keys.ledger(member.as_str())).key(keys.processed()).key(keys.processed_on(&day));
        call.key(keys.failed()).key(keys.failed_on(&day)).key(keys.totals()).key(keys.totals_on(&day));
        call.number(DAYS_KEPT_S);
        for (_, (token, verdict)) in verdicts {
            let ids = keys.ids(&token.job).map_or(0, |key| call.number_of(key, FIXED_KEYS));
            let failed = if matches!(verdict, Verdict::Discard) { "1" } else { "" };
            call.arg(Row(token.row).field()).number(ids).arg(token.job.as_bytes()).arg(failed);
        }
        call
    }

    /// Ends runs whose jobs go on, or are kept.
    async fn finish_by_moving(
        &self,
        member: &MemberId,
        verdicts: Vec<(usize, (LeaseToken, Verdict))>,
        answers: &mut [Finished],
    ) -> Result<(), StoreError> {
        let (now, ledger) = (self.now(), self.keys.ledger(member.as_str()));
        let fields: Vec<String> = verdicts.iter().map(|(_, (token, _))| Row(token.row).field()).collect();
        let held = self.work.query("finish", cmd("HMGET").arg(&ledger).arg(&fields)).await?;
        let held = values::maybe_bytes("finish", held)?;
        let mut moves = Vec::with_capacity(verdicts.len());
        let mut indexes = Vec::with_capacity(verdicts.len());
        for (((index, (token, verdict)), field), element) in verdicts.into_iter().zip(fields).zip(&held) {
            let source = Source::Field(ledger.clone(), field.into_bytes());
            let moved = match element.as_deref().and_then(Envelope::open) {
                Some(envelope) => self.end_of_run(source, envelope, Row(token.row), verdict, now),
                // Not there, or nothing we could have given out: the move finds nothing, and is counted as fenced.
                None => {
                    let source = Source::Field(ledger.clone(), Vec::new());
                    Move { id: token.job, source, target: Target::Nowhere, element: Vec::new(), counts: "" }
                }
            };
            moves.push(moved);
            indexes.push(index);
        }
        let landed = self.move_in_reverse("finish", &moves, Refusal::Counts).await?;
        for (index, landed) in indexes.into_iter().zip(landed) {
            if landed {
                answers[index] = Finished::Landed;
            }
        }
        Ok(())
    }

    /// What goes to the front of a queue goes there in reverse, so that the first is the first again.
    pub(super) async fn move_in_reverse(
        &self,
        tried: &'static str,
        moves: &[Move],
        refusal: Refusal,
    ) -> Result<Vec<bool>, StoreError> {
        let reversed: Vec<Move> = moves.iter().rev().cloned().collect();
        let mut answers = self.move_all(tried, &self.work, &reversed, refusal).await?;
        answers.reverse();
        Ok(answers)
    }

    /// What becomes of a job whose run has ended.
    fn end_of_run(
        &self,
        source: Source,
        mut envelope: Envelope<'_>,
        row: Row,
        verdict: Verdict,
        now: Timestamp,
    ) -> Move {
        let (id, dialect) = (envelope.id, self.dialect);
        envelope.begin_run(row.is_at_most_once());
        let into = |set, at| Target::Set { set, score: self.score(at) };
        let (target, counts) = match verdict {
            Verdict::Done { result, keep } => {
                envelope.set_result(result);
                envelope.own.keep_until = Some(now + keep);
                (Target::Kept { score: self.score(now), until: now + keep }, "p")
            }
            Verdict::Discard => (Target::Nowhere, "pf"),
            Verdict::Retry { at, error } => {
                envelope.fail(Some(error), now, dialect);
                envelope.enter_retry_queue();
                envelope.own.run_at = None;
                (into(Set::Retry, at), "pf")
            }
            Verdict::Dead { .. } if envelope.is_dropped_when_dead() => (Target::Nowhere, "pf"),
            Verdict::Dead { reason, error } => {
                envelope.fail(error, now, dialect);
                envelope.own.reason = Some(reason);
                (into(Set::Dead, now), "pfd")
            }
            Verdict::Snooze { until } => {
                envelope.give_attempt_back();
                envelope.own.run_at = None;
                (into(Set::Schedule, until), "")
            }
            Verdict::Release => {
                envelope.give_attempt_back();
                (Target::Front { queue: envelope.queue(), recoveries: envelope.own.recoveries }, "")
            }
            Verdict::Cancelled { reason } => {
                envelope.own.reason = Some(reason);
                (into(Set::Cancelled, now), "c")
            }
        };
        Move { id, source, target, element: envelope.seal(), counts }
    }

    pub(super) async fn promote(&self, max: usize) -> Result<Promoted, StoreError> {
        failpoint::hit("redis.promote")?;
        let now = self.now();
        if let Some(next_due) = self.known_next_due(now) {
            return Ok(Promoted { next_due, ..Promoted::default() });
        }
        let heard = self.bell.heard();
        let mut promoted = Promoted::default();
        let due = self.due(now, max).await?;
        let (mut moves, mut is_expired) = (Vec::with_capacity(due.len()), Vec::with_capacity(due.len()));
        for (set, member, score) in due {
            let (moved, expired) = self.promotion(set, member, instant_of(score), now);
            moves.push(moved);
            is_expired.push(expired);
        }
        let moved = self.move_all("promote", &self.work, &moves, Refusal::IsFine).await?;
        for (expired, _) in is_expired.into_iter().zip(moved).filter(|(_, moved)| *moved) {
            if expired { promoted.expired += 1 } else { promoted.ready += 1 }
        }
        promoted.next_due = self.next_due().await?;
        *lock(&self.found_due) = heard.filter(|_| moves.is_empty()).map(|heard| (promoted.next_due, heard));
        Ok(promoted)
    }

    /// When the next job is due, if that was looked up a moment ago, nothing has been heard since, and it is not yet.
    fn known_next_due(&self, now: Timestamp) -> Option<Option<Timestamp>> {
        let known = lock(&self.found_due);
        let (next, _) = known.as_ref().filter(|(_, heard)| self.bell.is_quiet(heard))?;
        next.is_none_or(|next| next > now).then_some(*next)
    }

    /// Due members of both sets, the earliest first.
    async fn due(&self, now: Timestamp, max: usize) -> Result<Vec<(Set, Vec<u8>, f64)>, StoreError> {
        let sets = [Set::Schedule, Set::Retry];
        let (seconds, ms) = (now.as_millis().div_euclid(1_000), now.as_millis().rem_euclid(1_000));
        // Everything within this millisecond, whatever its last digits.
        let until = format!("{seconds}.{ms:03}9995");
        let mut questions = pipe();
        for set in sets {
            let question = questions.cmd("ZRANGEBYSCORE").arg(set.key(&self.keys)).arg("-inf").arg(&until);
            question.arg("WITHSCORES").arg("LIMIT").arg(0).arg(max);
        }
        let answers = self.work.pipe("promote", &questions).await?;
        let mut due = Vec::new();
        for (set, answer) in sets.into_iter().zip(answers) {
            due.extend(values::scored("promote", answer)?.into_iter().map(|(member, score)| (set, member, score)));
        }
        due.sort_by(|(_, _, a), (_, _, b)| a.total_cmp(b));
        due.truncate(max);
        Ok(due)
    }

    /// The move of a due job, and whether it is too late for it.
    fn promotion(&self, set: Set, member: Vec<u8>, run_at: Timestamp, now: Timestamp) -> (Move, bool) {
        let source = Source::Member(set, member.clone());
        let Some(mut envelope) = Envelope::open(&member) else {
            return (self.to_the_dead_unchanged(source, member, now), true);
        };
        if set == Set::Schedule && envelope.is_expired(now) {
            envelope.note_run_at(run_at);
            return (self.to_the_dead(source, envelope, "expired", "dx", now), true);
        }
        envelope.make_ready(run_at, now, self.dialect);
        let target = Target::Back { queue: envelope.queue(), recoveries: envelope.own.recoveries };
        (Move { id: envelope.id, source, target, element: envelope.seal(), counts: "" }, false)
    }

    async fn next_due(&self) -> Result<Option<Timestamp>, StoreError> {
        let mut questions = pipe();
        for set in [Set::Schedule, Set::Retry] {
            questions.cmd("ZRANGE").arg(set.key(&self.keys)).arg(0).arg(0).arg("WITHSCORES");
        }
        let mut next: Option<Timestamp> = None;
        for answer in self.work.pipe("promote", &questions).await? {
            let first = values::scored("promote", answer)?.first().map(|(_, score)| instant_of(*score));
            next = next.into_iter().chain(first).min();
        }
        Ok(next)
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code that can panic runs under the lock.
    of.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn leased_job(envelope: &Envelope<'_>, row: Row, queue: &str) -> LeasedJob {
    LeasedJob {
        token: LeaseToken { job: envelope.id, run: envelope.own.run + 1, row: row.0 },
        kind: envelope.kind(),
        queue: queue.to_owned(),
        payload: envelope.payload(),
        attempt: envelope.attempt() + 1,
        recoveries: envelope.own.recoveries,
        enqueued_at: envelope.created_at(),
        run_at: envelope.run_at(),
        failed_at: envelope.failed_at(),
        at_most_once: envelope.own.at_most_once || row.is_at_most_once(),
        settings: envelope.settings(),
    }
}

/// The answer to who is no member.
pub(super) fn fenced(tried: &'static str, member: &MemberId) -> StoreError {
    StoreError::Fenced { tried, member: member.to_string() }
}
