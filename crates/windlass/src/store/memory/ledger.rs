//! The jobs and members of the memory store, and the verbs that move jobs along their lives.
//!
//! A job's record is the truth; the ordered sets beside it are indexes, changed only by [`Ledger::put`] and
//! [`Ledger::take`], which every verb goes through.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::{ErrorInfo, JobId, JobRecord, LeaseToken, LeasedJob, NewJob};
use crate::state::{Event, State, is_allowed};
use crate::store::memory::measuring::Measurements;
use crate::store::{
    Finished, Inserted, LeasePlan, MemberId, MemberInfo, Orders, ProcessOrder, ProcessTarget, Promoted, RECOVERIES_MAX,
    RECOVERIES_SUSPECT, RECOVERY_WINDOW, Reaped, Totals, Verdict, Vitals,
};

/// Everything the store knows.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) jobs: BTreeMap<JobId, Entry>,
    /// Ready jobs: queue, when due, in order of arrival.
    pub(super) ready: BTreeSet<(String, Timestamp, u64, JobId)>,
    /// Scheduled and retry jobs by due time.
    pub(super) due: BTreeSet<(Timestamp, u64, JobId)>,
    pub(super) members: BTreeMap<MemberId, Member>,
    pub(super) paused: HashSet<String>,
    pub(super) days: BTreeMap<i64, Totals>,
    pub(super) measurements: Measurements,
    /// Set when a job became ready; the store rings its bell and resets it.
    pub(super) became_ready: bool,
    pub(super) is_closed: bool,
    arrivals: u64,
}

/// One job, with what only the store needs.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) record: JobRecord,
    /// Breaks ties between equal due times.
    pub(super) arrival: u64,
    /// When the present window of recoveries began.
    window_began_at: Option<Timestamp>,
}

/// One process.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) info: MemberInfo,
    pub(super) lease: Duration,
    pub(super) lease_until: Timestamp,
    pub(super) joined_at: Timestamp,
    pub(super) beat_at: Timestamp,
    pub(super) vitals: Vitals,
    /// What it has not been told yet.
    pub(super) orders: BTreeSet<ProcessOrder>,
    /// Reaped, with jobs still to be handed on: without rights.
    pub(super) is_lost: bool,
}

impl Ledger {
    /// Puts a job back under its present state, into the indexes that want it.
    pub(super) fn put(&mut self, entry: Entry) {
        let record = &entry.record;
        match record.state {
            State::Ready => {
                self.ready.insert((record.queue.clone(), record.run_at, entry.arrival, record.id));
                self.became_ready = true;
            }
            State::Scheduled | State::Retry => {
                self.due.insert((record.run_at, entry.arrival, record.id));
            }
            State::Running | State::Done | State::Dead | State::Cancelled => {}
        }
        self.jobs.insert(record.id, entry);
    }

    /// Takes a job out, indexes included.
    pub(super) fn take(&mut self, id: JobId) -> Option<Entry> {
        let entry = self.jobs.remove(&id)?;
        let record = &entry.record;
        self.ready.remove(&(record.queue.clone(), record.run_at, entry.arrival, id));
        self.due.remove(&(record.run_at, entry.arrival, id));
        Some(entry)
    }

    /// Moves a job that has been taken out along a row of the table and puts it back.
    pub(super) fn move_to(&mut self, mut entry: Entry, event: Event, to: State) {
        let from = entry.record.state;
        assert!(is_allowed(event, Some(from), Some(to)), "{event} does not lead from {from} to {to}");
        entry.record.state = to;
        if from == State::Running {
            entry.record.member = None;
            entry.record.leased_at = None;
            entry.record.cancel_asked = false;
        }
        self.put(entry);
    }

    /// Moves a job to a state in which it has ended.
    pub(super) fn end(&mut self, mut entry: Entry, event: Event, to: State, reason: Option<&str>, now: Timestamp) {
        entry.record.finished_at = Some(now);
        entry.record.reason = reason.map(str::to_owned);
        match to {
            State::Dead => self.today(now).dead += 1,
            State::Cancelled => self.today(now).cancelled += 1,
            _ => {}
        }
        self.move_to(entry, event, to);
    }

    pub(super) fn today(&mut self, now: Timestamp) -> &mut Totals {
        self.days.entry(day_of(now)).or_default()
    }

    pub(super) fn insert(&mut self, job: NewJob, now: Timestamp) -> Inserted {
        if self.jobs.contains_key(&job.id) {
            return Inserted::Duplicate(job.id);
        }
        self.arrivals += 1;
        self.today(now).enqueued += 1;
        let id = job.id;
        let state = if job.run_at > now { State::Scheduled } else { State::Ready };
        let record = JobRecord {
            id,
            kind: job.kind,
            queue: job.queue,
            state,
            payload: job.payload,
            attempt: 0,
            run: 0,
            recoveries: 0,
            enqueued_at: now,
            run_at: job.run_at,
            expires_at: job.expires_at,
            failed_at: None,
            leased_at: None,
            member: None,
            finished_at: None,
            keep_until: None,
            at_most_once: job.at_most_once,
            cancel_asked: false,
            reason: None,
            error: None,
            result: None,
            settings: job.settings,
        };
        self.put(Entry { record, arrival: self.arrivals, window_began_at: None });
        Inserted::Accepted(id)
    }

    pub(super) fn restore(&mut self, job: JobRecord, now: Timestamp) -> Inserted {
        let id = job.id;
        if self.jobs.contains_key(&id) {
            return Inserted::Duplicate(id);
        }
        assert!(is_allowed(Event::Restore, None, Some(job.state)), "a running job cannot be restored");
        self.arrivals += 1;
        let record = JobRecord {
            leased_at: None,
            member: None,
            cancel_asked: false,
            finished_at: job.state.is_final().then(|| job.finished_at.unwrap_or(now)),
            ..job
        };
        let window_began_at = (record.recoveries > 0).then_some(now);
        self.put(Entry { record, arrival: self.arrivals, window_began_at });
        Inserted::Accepted(id)
    }

    pub(super) fn lease(&mut self, member: &MemberId, plan: &LeasePlan, now: Timestamp) -> Vec<LeasedJob> {
        let mut leased = Vec::new();
        let mut holds_suspect = self.held_by(member).any(is_suspect);
        for take in &plan.takes {
            let mut wanted = take.max.min(plan.max - leased.len());
            let ready = if self.paused.contains(&take.queue) { Vec::new() } else { self.ready_in(&take.queue) };
            for id in ready {
                if wanted == 0 {
                    break;
                }
                if holds_suspect && self.jobs.get(&id).is_some_and(is_suspect) {
                    continue;
                }
                let Some(entry) = self.take(id) else { continue };
                if is_expired(&entry, now) {
                    self.expire(entry, now);
                    continue;
                }
                holds_suspect |= is_suspect(&entry);
                leased.push(self.lease_one(entry, member, take.at_most_once, now));
                wanted -= 1;
            }
        }
        leased
    }

    /// The ready jobs of a queue, in their order.
    fn ready_in(&self, queue: &str) -> Vec<JobId> {
        let from = (queue.to_owned(), Timestamp::from_millis(i64::MIN), 0, JobId::from_bytes([0; 12]));
        self.ready.range(from..).take_while(|(name, ..)| name == queue).map(|&(_, _, _, id)| id).collect()
    }

    fn lease_one(&mut self, mut entry: Entry, member: &MemberId, at_most_once: bool, now: Timestamp) -> LeasedJob {
        let record = &mut entry.record;
        record.attempt += 1;
        record.run += 1;
        record.at_most_once |= at_most_once;
        record.member = Some(member.to_string());
        record.leased_at = Some(now);
        let leased = LeasedJob {
            token: LeaseToken { job: record.id, run: record.run, row: 0 },
            kind: record.kind.clone(),
            queue: record.queue.clone(),
            payload: record.payload.clone(),
            attempt: record.attempt,
            recoveries: record.recoveries,
            enqueued_at: record.enqueued_at,
            run_at: record.run_at,
            failed_at: record.failed_at,
            at_most_once: record.at_most_once,
            settings: record.settings.clone(),
        };
        self.move_to(entry, Event::Lease, State::Running);
        leased
    }

    /// Whether the token is good: the job is in this member's ledger, in this very run.
    fn owns(&self, member: &MemberId, token: LeaseToken) -> bool {
        let is_member = self.members.get(member).is_some_and(|member| !member.is_lost);
        let is_its = |entry: &Entry| {
            let record = &entry.record;
            record.state == State::Running
                && record.run == token.run
                && record.member.as_deref() == Some(member.as_str())
        };
        is_member && self.jobs.get(&token.job).is_some_and(is_its)
    }

    pub(super) fn finish(
        &mut self,
        member: &MemberId,
        token: LeaseToken,
        verdict: Verdict,
        now: Timestamp,
    ) -> Finished {
        let entry = if self.owns(member, token) { self.take(token.job) } else { None };
        let Some(entry) = entry else {
            self.today(now).fenced += 1;
            return Finished::Fenced;
        };
        self.apply(entry, verdict, now);
        Finished::Landed
    }

    fn apply(&mut self, mut entry: Entry, verdict: Verdict, now: Timestamp) {
        match verdict {
            Verdict::Done { result, keep } => {
                self.today(now).done += 1;
                if !keep.is_zero() {
                    entry.record.result = result;
                    entry.record.keep_until = Some(now + keep);
                    self.end(entry, Event::Done, State::Done, None, now);
                }
            }
            Verdict::Discard => self.today(now).failed += 1,
            Verdict::Retry { at, error } => {
                self.today(now).failed += 1;
                entry.record.run_at = at;
                fail(&mut entry, Some(error), now);
                self.move_to(entry, Event::Fail, State::Retry);
            }
            Verdict::Dead { reason, error } => {
                self.today(now).failed += 1;
                fail(&mut entry, error, now);
                self.end(entry, Event::Fail, State::Dead, Some(&reason), now);
            }
            Verdict::Snooze { until } => {
                entry.record.run_at = until;
                entry.record.attempt -= 1;
                self.move_to(entry, Event::Snooze, State::Scheduled);
            }
            Verdict::Release => {
                entry.record.attempt -= 1;
                self.move_to(entry, Event::Release, State::Ready);
            }
            Verdict::Cancelled { reason } => self.end(entry, Event::Cancel, State::Cancelled, Some(&reason), now),
        }
    }

    pub(super) fn expire(&mut self, entry: Entry, now: Timestamp) {
        self.today(now).expired += 1;
        self.end(entry, Event::Expire, State::Dead, Some("expired"), now);
    }

    pub(super) fn promote(&mut self, max: usize, now: Timestamp) -> Promoted {
        let mut promoted = Promoted::default();
        while promoted.ready + promoted.expired < max {
            let Some(&(at, _, id)) = self.due.first() else {
                break;
            };
            if at > now {
                break;
            }
            let Some(entry) = self.take(id) else { break };
            if entry.record.state == State::Scheduled && is_expired(&entry, now) {
                self.expire(entry, now);
                promoted.expired += 1;
            } else {
                self.move_to(entry, Event::Due, State::Ready);
                promoted.ready += 1;
            }
        }
        promoted.next_due = self.due.first().map(|&(at, ..)| at);
        promoted
    }

    /// The member, if it still has its rights.
    pub(super) fn member(&mut self, tried: &'static str, id: &MemberId) -> Result<&mut Member, StoreError> {
        let fenced = || StoreError::Fenced { tried, member: id.to_string() };
        self.members.get_mut(id).filter(|member| !member.is_lost).ok_or_else(fenced)
    }

    pub(super) fn join(&mut self, info: MemberInfo, lease: Duration, now: Timestamp) -> Result<(), StoreError> {
        if self.members.contains_key(&info.id) {
            let detail = format!("member {} is there already: each start needs a new identity", info.id);
            return Err(StoreError::Invalid { tried: "join", detail });
        }
        let id = info.id.clone();
        let (vitals, orders) = (Vitals::default(), BTreeSet::new());
        let (joined_at, beat_at, lease_until) = (now, now, now + lease);
        let member = Member { info, lease, lease_until, joined_at, beat_at, vitals, orders, is_lost: false };
        self.members.insert(id, member);
        Ok(())
    }

    pub(super) fn beat(&mut self, id: &MemberId, vitals: Vitals, now: Timestamp) -> Result<Orders, StoreError> {
        let member = self.member("beat", id)?;
        member.lease_until = now + member.lease;
        member.beat_at = now;
        member.vitals = vitals;
        let process = std::mem::take(&mut member.orders).into_iter().collect();
        let asked = self.held_by(id).filter(|entry| entry.record.cancel_asked);
        let token = |entry: &Entry| LeaseToken { job: entry.record.id, run: entry.record.run, row: 0 };
        Ok(Orders { cancel: asked.map(token).collect(), process })
    }

    pub(super) fn order(&mut self, to: &ProcessTarget, order: ProcessOrder) -> usize {
        let is_meant = |id: &MemberId| match to {
            ProcessTarget::One(wanted) => wanted == id,
            ProcessTarget::All => true,
        };
        let mut reached = 0;
        for member in self.members.values_mut().filter(|member| !member.is_lost && is_meant(&member.info.id)) {
            member.orders.insert(order);
            reached += 1;
        }
        reached
    }

    /// The jobs in a member's ledger.
    pub(super) fn held_by(&self, id: &MemberId) -> impl Iterator<Item = &Entry> {
        self.jobs.values().filter(move |entry| entry.record.member.as_deref() == Some(id.as_str()))
    }

    /// The jobs in a member's ledger, in the order of their arrival.
    fn held_ids(&self, id: &MemberId) -> Vec<JobId> {
        let mut held: Vec<(u64, JobId)> = self.held_by(id).map(|entry| (entry.arrival, entry.record.id)).collect();
        held.sort_unstable();
        held.into_iter().map(|(_, id)| id).collect()
    }

    pub(super) fn leave(&mut self, id: &MemberId, now: Timestamp) -> usize {
        if self.members.get(id).is_none_or(|member| member.is_lost) {
            return 0;
        }
        self.members.remove(id);
        let held = self.held_ids(id);
        for job in &held {
            let Some(mut entry) = self.take(*job) else {
                continue;
            };
            if entry.record.at_most_once {
                self.end(entry, Event::Recover, State::Dead, Some("interrupted"), now);
            } else {
                entry.record.attempt -= 1;
                self.move_to(entry, Event::Release, State::Ready);
            }
        }
        held.len()
    }

    pub(super) fn reap(&mut self, max: usize, now: Timestamp) -> Reaped {
        let mut reaped = Reaped::default();
        for (id, member) in &mut self.members {
            if !member.is_lost && member.lease_until <= now {
                member.is_lost = true;
                reaped.members.push(id.clone());
            }
        }
        let lost: Vec<MemberId> =
            self.members.iter().filter(|(_, member)| member.is_lost).map(|(id, _)| id.clone()).collect();
        for id in lost {
            let room = max - (reaped.recovered + reaped.dead + reaped.cancelled);
            let held: Vec<JobId> = self.held_ids(&id).into_iter().take(room).collect();
            for job in held {
                if let Some(entry) = self.take(job) {
                    self.recover(entry, &mut reaped, now);
                }
            }
            if self.held_by(&id).next().is_some() {
                reaped.more = true;
            } else {
                self.members.remove(&id);
            }
        }
        reaped
    }

    /// What becomes of one job of a lost member.
    fn recover(&mut self, mut entry: Entry, reaped: &mut Reaped, now: Timestamp) {
        self.today(now).recovered += 1;
        if entry.record.cancel_asked {
            reaped.cancelled += 1;
            return self.end(entry, Event::Cancel, State::Cancelled, Some("asked to cancel"), now);
        }
        let is_new_window = entry.window_began_at.is_none_or(|began| now.since(began) >= RECOVERY_WINDOW);
        if is_new_window {
            entry.record.recoveries = 0;
            entry.window_began_at = Some(now);
        }
        entry.record.recoveries += 1;
        if entry.record.at_most_once {
            reaped.dead += 1;
            return self.end(entry, Event::Recover, State::Dead, Some("interrupted"), now);
        }
        entry.record.attempt -= 1;
        if entry.record.recoveries >= RECOVERIES_MAX {
            reaped.dead += 1;
            return self.end(entry, Event::Recover, State::Dead, Some("poison"), now);
        }
        reaped.recovered += 1;
        self.move_to(entry, Event::Recover, State::Ready);
    }
}

impl Entry {
    /// Forgets what happened before: the job starts anew.
    pub(super) fn start_again(&mut self) {
        self.record.attempt = 0;
        self.record.recoveries = 0;
        self.record.failed_at = None;
        self.record.finished_at = None;
        self.record.reason = None;
        self.window_began_at = None;
    }
}

fn fail(entry: &mut Entry, error: Option<ErrorInfo>, now: Timestamp) {
    entry.record.failed_at = entry.record.failed_at.or(Some(now));
    entry.record.error = error;
}

fn is_suspect(entry: &Entry) -> bool {
    entry.record.recoveries >= RECOVERIES_SUSPECT
}

fn is_expired(entry: &Entry, now: Timestamp) -> bool {
    // A retry has started before: only a job that never ran can be too late to start.
    entry.record.run == 0 && entry.record.expires_at.is_some_and(|at| at <= now)
}

/// The beginning of the UTC day, in Unix milliseconds.
pub(super) fn day_of(now: Timestamp) -> i64 {
    const DAY_MS: i64 = 24 * 60 * 60 * 1_000;
    now.as_millis().div_euclid(DAY_MS) * DAY_MS
}
