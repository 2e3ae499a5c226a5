//! The jobs in this process's hands, from lease to ack.
//!
//! A leased job passes through three places: *buffered* (leased, not started), *running*, and the *outbox* (ended,
//! its verdict not yet in the store). They live behind one lock, held for a few instructions at a time, so that
//! the counts always agree: what the fetcher may lease, what the heartbeat must cancel and when a stopping server
//! is empty are all read from here.
//!
//! Every entry remembers under which membership it was leased. When that membership is lost, buffered jobs are
//! forgotten and running ones are told; their verdicts are still sent, so that the store refuses and counts them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;

use crate::cancel::CancelCause;
use crate::clock::Stopwatch;
use crate::context::Context;
use crate::job::{LeaseToken, LeasedJob};
use crate::server::recorder::RunFacts;
use crate::store::{MemberId, Verdict};

/// A leased job that has not started.
#[derive(Debug)]
pub(crate) struct Buffered {
    pub(crate) job: LeasedJob,
    pub(crate) member: Arc<MemberId>,
    since: Stopwatch,
}

/// A verdict on its way to the store.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) member: Arc<MemberId>,
    pub(crate) token: LeaseToken,
    pub(crate) verdict: Verdict,
    /// What was measured, if it ran at all.
    pub(crate) facts: Option<RunFacts>,
}

/// What is in hand. Shared by all services of one server.
#[derive(Debug)]
pub(crate) struct InFlight {
    concurrency: usize,
    places: Mutex<Places>,
    /// Rings when a job leaves: the fetcher may have room.
    room: Notify,
    /// Rings when the outbox is no longer empty.
    mail: Notify,
    /// Rings when nothing is running, and again when nothing is left at all.
    calm: Notify,
}

#[derive(Debug, Default)]
struct Places {
    buffered: VecDeque<Buffered>,
    running: HashMap<LeaseToken, Context>,
    outbox: Vec<Report>,
    /// Verdicts taken from the outbox whose answer is not there yet.
    acking: usize,
    /// Runner tasks alive, each of which runs one job at a time.
    runners: usize,
    /// Runs that have ended since the start.
    ended: u64,
    /// The fetcher is rung when no more than this many jobs are buffered.
    low_water: usize,
    /// Whether the fetcher may be about to bring more.
    is_leasing: bool,
}

/// How many jobs are where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Load {
    pub(crate) buffered: usize,
    pub(crate) running: usize,
    pub(crate) unacked: usize,
    pub(crate) ended: u64,
    pub(crate) is_leasing: bool,
}

impl Load {
    /// Whether nothing runs, and nothing will unless somebody leases anew.
    pub(crate) fn is_calm(&self) -> bool {
        self.running == 0 && self.buffered == 0 && !self.is_leasing
    }
}

impl InFlight {
    /// Nothing in hand; at most `concurrency` jobs will run at a time.
    pub(crate) fn new(concurrency: usize) -> InFlight {
        let places = Mutex::new(Places::default());
        InFlight { concurrency, places, room: Notify::new(), mail: Notify::new(), calm: Notify::new() }
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        // No code that can panic runs under the lock.
        self.places.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// How many jobs are where.
    pub(crate) fn load(&self) -> Load {
        let places = self.places();
        Load {
            buffered: places.buffered.len(),
            running: places.running.len(),
            unacked: places.outbox.len() + places.acking,
            ended: places.ended,
            is_leasing: places.is_leasing,
        }
    }

    /// The fetcher begins to look for jobs. It asks whether the server is quiet only after this, and a stopping server
    /// looks here only after it has become quiet: so either the fetcher sees that, or the server waits for what the
    /// fetcher brings. A job that arrived unseen would be handed back by `leave` and run here all the same.
    pub(crate) fn begin_lease(&self) {
        self.places().is_leasing = true;
    }

    /// The fetcher has brought what there was.
    pub(crate) fn end_lease(&self) {
        self.places().is_leasing = false;
        self.calm.notify_waiters();
    }

    /// Takes jobs in, and answers how many more runners are wanted for them. The caller must start that many.
    #[must_use]
    pub(crate) fn accept(&self, jobs: Vec<LeasedJob>, member: &Arc<MemberId>) -> usize {
        let mut places = self.places();
        let since = Stopwatch::start();
        places.buffered.extend(jobs.into_iter().map(|job| Buffered { job, member: Arc::clone(member), since }));
        let wanted = places.buffered.len().min(self.concurrency.saturating_sub(places.runners));
        places.runners += wanted;
        wanted
    }

    /// The next job for a runner that is free. `None` ends the runner: it is no longer counted.
    pub(crate) fn next_job(&self) -> Option<Buffered> {
        let mut places = self.places();
        let next = places.buffered.pop_front();
        if next.is_none() {
            places.runners -= 1;
        }
        next
    }

    /// Notes that a run has begun.
    pub(crate) fn begin(&self, ctx: &Context) {
        self.places().running.insert(ctx.run().token, ctx.clone());
    }

    /// Notes that a run has ended, and posts its verdict.
    pub(crate) fn end(&self, report: Report) {
        let mut places = self.places();
        places.running.remove(&report.token);
        places.ended += 1;
        places.outbox.push(report);
        // The bells ring at the edges only: at full speed a ring for every job would cost more than the job.
        let is_first_mail = places.outbox.len() == 1;
        let is_low = places.buffered.len() <= places.low_water;
        let is_calm = places.running.is_empty() && places.buffered.is_empty();
        drop(places);
        if is_first_mail {
            self.mail.notify_one();
        }
        if is_low {
            self.room.notify_one();
        }
        if is_calm {
            self.calm.notify_waiters();
        }
    }

    /// Hands back the buffered jobs that have waited longer than `longest`, or all of them: posts their release.
    /// Answers how many.
    pub(crate) fn hand_back(&self, is_due: impl Fn(&Stopwatch) -> bool) -> usize {
        let mut places = self.places();
        let mut count = 0;
        while places.buffered.front().is_some_and(|buffered| is_due(&buffered.since)) {
            let Some(Buffered { job, member, .. }) = places.buffered.pop_front() else {
                break;
            };
            places.outbox.push(Report { member, token: job.token, verdict: Verdict::Release, facts: None });
            count += 1;
        }
        drop(places);
        if count > 0 {
            self.mail.notify_one();
            self.calm.notify_waiters();
        }
        count
    }

    /// Takes up to `max` verdicts out of the outbox. Each must come back by [`InFlight::acked`] or
    /// [`InFlight::put_back`].
    pub(crate) fn take_reports(&self, max: usize) -> Vec<Report> {
        let mut places = self.places();
        let reports = if places.outbox.len() <= max {
            std::mem::take(&mut places.outbox)
        } else {
            places.outbox.drain(..max).collect()
        };
        places.acking += reports.len();
        reports
    }

    /// Notes that the store has answered `count` verdicts.
    pub(crate) fn acked(&self, count: usize) {
        let mut places = self.places();
        places.acking -= count;
        drop(places);
        self.room.notify_one();
        self.calm.notify_waiters();
    }

    /// Puts verdicts back that the store could not take now, before all others.
    pub(crate) fn put_back(&self, reports: Vec<Report>) {
        let mut places = self.places();
        places.acking -= reports.len();
        places.outbox.splice(0..0, reports);
    }

    /// The membership is lost: forgets the buffered jobs and tells the running ones. Answers how many there were
    /// of each.
    pub(crate) fn lose(&self) -> (usize, usize) {
        let mut places = self.places();
        let forgotten = places.buffered.len();
        places.buffered.clear();
        for ctx in places.running.values() {
            ctx.run().cancel.cancel(CancelCause::LeaseLost);
        }
        (forgotten, places.running.len())
    }

    /// Cancels everything that runs.
    pub(crate) fn cancel_all(&self, cause: CancelCause) {
        self.places().running.values().for_each(|ctx| {
            ctx.run().cancel.cancel(cause);
        });
    }

    /// Cancels one run, if it is still running here.
    pub(crate) fn cancel(&self, token: &LeaseToken, cause: CancelCause) -> bool {
        self.places().running.get(token).is_some_and(|ctx| ctx.run().cancel.cancel(cause))
    }

    /// The runs that are going on.
    pub(crate) fn running(&self) -> Vec<Context> {
        self.places().running.values().cloned().collect()
    }

    /// Waits until there may be room for more.
    pub(crate) async fn room(&self) {
        self.room.notified().await;
    }

    /// Sets how few buffered jobs make the fetcher's bell ring.
    pub(crate) fn set_low_water(&self, low_water: usize) {
        self.places().low_water = low_water;
    }

    /// Waits until there may be verdicts to send.
    pub(crate) async fn mail(&self) {
        self.mail.notified().await;
    }

    /// Waits until `is_enough` holds of the load. Looked at whenever something ends or is acked.
    pub(crate) async fn until(&self, is_enough: impl Fn(Load) -> bool) {
        loop {
            let calm = self.calm.notified();
            if is_enough(self.load()) {
                return;
            }
            calm.await;
        }
    }
}
