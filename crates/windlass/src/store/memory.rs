//! The reference store: the contract in its plainest form.
//!
//! Everything is in one [`Ledger`] behind one lock: a map of jobs by id, and ordered sets that say which are ready,
//! due and finished, in the order in which they will be wanted. A verb locks, asks the table of states, changes, and
//! unlocks, so that it is atomic by construction. Nothing survives the process: this store is for tests, for trials,
//! and for comparing the others with.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::watch;

use crate::clock::{Clock, SystemClock, Timestamp};
use crate::error::StoreError;
use crate::failpoint;
use crate::job::{JobId, JobRecord, LeaseToken, LeasedJob, NewJob};
use crate::state::State;
use crate::store::{
    Changed, ClearFilter, Counts, DayTotals, Finding, Finished, Inserted, JobPage, JobQuery, Keep, LeasePlan, MemberId,
    MemberInfo, Orders, ProcessInfo, ProcessOrder, ProcessTarget, Promoted, QueueInfo, Reaped, Reply, Ring, Sample,
    Series, SeriesQuery, Severity, Store, StoreInfo, Verdict, Vitals, limits,
};

mod admin;
mod ledger;
mod measuring;
mod reading;

use ledger::Ledger;

/// Keeps jobs in memory. Share it as `Arc<dyn Store>`; when the last reference is dropped, the jobs are gone.
#[derive(Debug)]
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    ledger: Mutex<Ledger>,
    /// Counts the times that jobs became ready.
    bell: watch::Sender<u64>,
}

impl MemoryStore {
    /// An empty store that judges time by `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> MemoryStore {
        MemoryStore { clock, ledger: Mutex::default(), bell: watch::Sender::new(0) }
    }

    /// Does a verb under the lock, and rings the bell when it made jobs ready.
    fn step<T>(
        &self,
        tried: &'static str,
        verb: impl FnOnce(&mut Ledger, Timestamp) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let now = self.clock.now();
        let mut ledger = self.lock();
        if ledger.is_closed {
            return Err(StoreError::Closed { tried });
        }
        let answer = verb(&mut ledger, now);
        let became_ready = std::mem::take(&mut ledger.became_ready);
        drop(ledger);
        if became_ready {
            self.bell.send_modify(|rings| *rings += 1);
        }
        answer
    }

    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Default for MemoryStore {
    fn default() -> MemoryStore {
        MemoryStore::new(Arc::new(SystemClock::new()))
    }
}

/// An answer that is there already.
fn ready<'a, T: Send + 'a>(answer: Result<T, StoreError>) -> Reply<'a, T> {
    Box::pin(std::future::ready(answer))
}

impl Store for MemoryStore {
    fn describe(&self) -> StoreInfo {
        StoreInfo { engine: "memory", url: "memory:".to_owned(), durability: "none: gone with the process" }
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn insert(&self, batch: Vec<NewJob>) -> Reply<'_, Vec<Inserted>> {
        ready(self.step("insert", |ledger, now| {
            failpoint::hit("memory.insert")?;
            limits::check_batch(&batch)?;
            Ok(batch.into_iter().map(|job| ledger.insert(job, now)).collect())
        }))
    }

    fn restore(&self, batch: Vec<JobRecord>) -> Reply<'_, Vec<Inserted>> {
        ready(self.step("restore", |ledger, now| {
            failpoint::hit("memory.restore")?;
            limits::check_restorable(&batch)?;
            Ok(batch.into_iter().map(|job| ledger.restore(job, now)).collect())
        }))
    }

    fn lease(&self, member: &MemberId, plan: LeasePlan) -> Reply<'_, Vec<LeasedJob>> {
        ready(self.step("lease", |ledger, now| {
            failpoint::hit("memory.lease")?;
            limits::check_len("lease", plan.max)?;
            ledger.member("lease", member)?;
            Ok(ledger.lease(member, &plan, now))
        }))
    }

    fn finish(&self, member: &MemberId, verdicts: Vec<(LeaseToken, Verdict)>) -> Reply<'_, Vec<Finished>> {
        ready(self.step("finish", |ledger, now| {
            failpoint::hit("memory.finish")?;
            limits::check_len("finish", verdicts.len())?;
            let finish = |(token, verdict)| ledger.finish(member, token, verdict, now);
            Ok(verdicts.into_iter().map(finish).collect())
        }))
    }

    fn join(&self, member: MemberInfo, lease: Duration) -> Reply<'_, ()> {
        ready(self.step("join", |ledger, now| {
            failpoint::hit("memory.join")?;
            limits::check_lease(lease)?;
            ledger.join(member, lease, now)
        }))
    }

    fn beat(&self, member: &MemberId, vitals: Vitals) -> Reply<'_, Orders> {
        ready(self.step("beat", |ledger, now| {
            failpoint::hit("memory.beat")?;
            ledger.beat(member, vitals, now)
        }))
    }

    fn order(&self, to: ProcessTarget, order: ProcessOrder) -> Reply<'_, usize> {
        ready(self.step("order", |ledger, _| Ok(ledger.order(&to, order))))
    }

    fn leave(&self, member: &MemberId) -> Reply<'_, usize> {
        ready(self.step("leave", |ledger, now| {
            failpoint::hit("memory.leave")?;
            Ok(ledger.leave(member, now))
        }))
    }

    fn reap(&self, max: usize) -> Reply<'_, Reaped> {
        ready(self.step("reap", |ledger, now| {
            failpoint::hit("memory.reap")?;
            limits::check_len("reap", max)?;
            Ok(ledger.reap(max, now))
        }))
    }

    fn promote(&self, max: usize) -> Reply<'_, Promoted> {
        ready(self.step("promote", |ledger, now| {
            failpoint::hit("memory.promote")?;
            limits::check_len("promote", max)?;
            Ok(ledger.promote(max, now))
        }))
    }

    fn ring(&self) -> Ring {
        Ring(*self.bell.borrow())
    }

    fn wait(&self, since: Ring, timeout: Duration) -> Reply<'_, ()> {
        let mut bell = self.bell.subscribe();
        Box::pin(async move {
            let rung = bell.wait_for(|rings| *rings > since.0);
            // Neither the time-out nor the end of the store is an error: this is a hint.
            let _ = tokio::time::timeout(timeout, rung).await;
            Ok(())
        })
    }

    fn cancel(&self, ids: Vec<JobId>) -> Reply<'_, Vec<Changed>> {
        ready(self.step("cancel", |ledger, now| ledger.for_each("cancel", &ids, |l, id| l.cancel(id, now))))
    }

    fn kill(&self, ids: Vec<JobId>) -> Reply<'_, Vec<Changed>> {
        ready(self.step("kill", |ledger, now| ledger.for_each("kill", &ids, |l, id| l.kill(id, now))))
    }

    fn requeue(&self, ids: Vec<JobId>) -> Reply<'_, Vec<Changed>> {
        ready(self.step("requeue", |ledger, now| ledger.for_each("requeue", &ids, |l, id| l.requeue(id, now))))
    }

    fn delete(&self, ids: Vec<JobId>) -> Reply<'_, Vec<Changed>> {
        ready(self.step("delete", |ledger, _| ledger.for_each("delete", &ids, Ledger::delete)))
    }

    fn clear(&self, filter: ClearFilter, max: usize) -> Reply<'_, usize> {
        ready(self.step("clear", |ledger, _| {
            limits::check_len("clear", max)?;
            limits::check_clearable(&filter)?;
            Ok(ledger.clear(&filter, max))
        }))
    }

    fn prune(&self, keep: Keep, max: usize) -> Reply<'_, usize> {
        ready(self.step("prune", |ledger, now| {
            limits::check_len("prune", max)?;
            Ok(ledger.prune(keep, max, now))
        }))
    }

    fn pause(&self, queue: &str) -> Reply<'_, bool> {
        ready(self.step("pause", |ledger, _| Ok(ledger.paused.insert(queue.to_owned()))))
    }

    fn resume(&self, queue: &str) -> Reply<'_, bool> {
        ready(self.step("resume", |ledger, _| {
            let changed = ledger.paused.remove(queue);
            ledger.became_ready |= changed;
            Ok(changed)
        }))
    }

    fn get(&self, id: JobId) -> Reply<'_, Option<JobRecord>> {
        ready(self.step("get", |ledger, _| Ok(ledger.get(id))))
    }

    fn list(&self, query: JobQuery) -> Reply<'_, JobPage> {
        ready(self.step("list", |ledger, _| {
            limits::check_page(&query)?;
            Ok(ledger.list(&query))
        }))
    }

    fn counts(&self) -> Reply<'_, Counts> {
        ready(self.step("counts", |ledger, _| Ok(ledger.counts())))
    }

    fn queues(&self) -> Reply<'_, Vec<QueueInfo>> {
        ready(self.step("queues", |ledger, now| Ok(ledger.queues(now))))
    }

    fn processes(&self) -> Reply<'_, Vec<ProcessInfo>> {
        ready(self.step("processes", |ledger, _| Ok(ledger.processes())))
    }

    fn history(&self, days: u32) -> Reply<'_, Vec<DayTotals>> {
        ready(self.step("history", |ledger, now| {
            limits::check_days(days)?;
            Ok(ledger.history(days, now))
        }))
    }

    fn record(&self, member: &MemberId, samples: Vec<Sample>) -> Reply<'_, ()> {
        ready(self.step("record", |ledger, now| {
            limits::check_samples(&samples)?;
            ledger.member("record", member)?;
            ledger.record(samples, now);
            Ok(())
        }))
    }

    fn series(&self, query: SeriesQuery) -> Reply<'_, Series> {
        ready(self.step("series", |ledger, now| Ok(ledger.series(&query, now))))
    }

    fn meters(&self) -> Reply<'_, Vec<Sample>> {
        ready(self.step("meters", |ledger, _| Ok(ledger.meters())))
    }

    fn check(&self) -> Reply<'_, Vec<Finding>> {
        ready(self.step("check", |ledger, _| {
            let mut findings = vec![Finding {
                severity: Severity::Warning,
                subject: "durability",
                detail: "jobs are in memory and gone with the process; use sqlite:FILE to keep them".to_owned(),
            }];
            let counted: u64 = State::ALL.into_iter().map(|state| ledger.counts().of(state)).sum();
            findings.push(Finding {
                severity: Severity::Good,
                subject: "jobs",
                detail: format!("{counted} in memory"),
            });
            Ok(findings)
        }))
    }

    fn close(&self) -> Reply<'_, ()> {
        self.lock().is_closed = true;
        ready(Ok(()))
    }
}
