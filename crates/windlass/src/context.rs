//! What a handler may know about the run it is in.
//!
//! The runner makes one [`Context`] for every run. A handler that wants it names it as a parameter; so it can read
//! its id, attempt and deadline, notice that it should give way, and enqueue child jobs. It never sees the store.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use crate::cancel::{CancelCause, CancelToken};
use crate::client::Client;
use crate::clock::Timestamp;
use crate::job::{JobId, LeaseToken, LeasedJob};
use crate::trace::Trace;

/// One run of one job, as its handler sees it. Cheap to clone; clones are the same run.
#[derive(Clone)]
pub struct Context {
    run: Arc<Run>,
}

/// What is shared between the handler, the runner and the heartbeat.
pub(crate) struct Run {
    pub(crate) token: LeaseToken,
    pub(crate) kind: String,
    pub(crate) queue: String,
    pub(crate) attempt: u32,
    pub(crate) attempts_max: u32,
    pub(crate) enqueued_at: Timestamp,
    pub(crate) started_at: Timestamp,
    pub(crate) timeout: Option<Duration>,
    pub(crate) trace: Option<Trace>,
    pub(crate) cancel: CancelToken,
    /// Counts the polls of an async handler, twice each: odd while it is being polled. Written by the thread that
    /// polls, read by the watchdog.
    pub(crate) polls: AtomicU64,
    /// Who is done with a CPU run: [`RUNS`], [`STUCK`] or [`ENDED`]. Written by the runner and the pool's worker.
    closure: AtomicU8,
    pub(crate) services: Arc<Services>,
}

/// The closure of a CPU run is on its way, and somebody waits for it.
const RUNS: u8 = 0;
/// Its runner has given up waiting.
const STUCK: u8 = 1;
/// It has ended.
const ENDED: u8 = 2;

/// What every run of a server shares.
pub(crate) struct Services {
    pub(crate) states: States,
    pub(crate) client: Client,
}

impl Context {
    /// Describes the run of a leased job that starts now.
    pub(crate) fn new(
        job: &LeasedJob,
        started_at: Timestamp,
        timeout: Option<Duration>,
        services: &Arc<Services>,
    ) -> Context {
        let run = Run {
            token: job.token,
            kind: job.kind.clone(),
            queue: job.queue.clone(),
            attempt: job.attempt,
            attempts_max: job.settings.attempts_max(),
            enqueued_at: job.enqueued_at,
            started_at,
            timeout,
            trace: job.settings.trace.clone(),
            cancel: CancelToken::new(),
            polls: AtomicU64::new(0),
            closure: AtomicU8::new(RUNS),
            services: Arc::clone(services),
        };
        Context { run: Arc::new(run) }
    }

    pub(crate) fn run(&self) -> &Arc<Run> {
        &self.run
    }

    /// The job's id: the same on every attempt. Use it as an idempotency key.
    pub fn id(&self) -> JobId {
        self.run.token.job()
    }

    /// The name that selected this handler.
    pub fn kind(&self) -> &str {
        &self.run.kind
    }

    /// The queue the job came from.
    pub fn queue(&self) -> &str {
        &self.run.queue
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.run.attempt
    }

    /// How many attempts the job has in all.
    pub fn attempts_max(&self) -> u32 {
        self.run.attempts_max
    }

    /// Grows with every lease of this job: pass it to other systems as a fencing token.
    pub fn fencing_token(&self) -> u64 {
        self.run.token.run()
    }

    /// When the job was enqueued, by the store's clock.
    pub fn enqueued_at(&self) -> Timestamp {
        self.run.enqueued_at
    }

    /// When this run began, by the store's clock.
    pub fn started_at(&self) -> Timestamp {
        self.run.started_at
    }

    /// When this run will be cancelled, if it has a time-out.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.run.timeout.map(|timeout| self.run.started_at + timeout)
    }

    /// The trace that the job is part of, if whoever enqueued it was. Give it to child jobs with
    /// [`JobOptions::trace`](crate::JobOptions::trace), and to other services as headers.
    pub fn trace(&self) -> Option<&Trace> {
        self.run.trace.as_ref()
    }

    /// The present, by the store's clock.
    pub fn now(&self) -> Timestamp {
        self.run.services.client.store().now()
    }

    /// Why this run should give way, if it should. Costs one load: look at it in the loops of CPU handlers.
    pub fn cancel_cause(&self) -> Option<CancelCause> {
        self.run.cancel.cause()
    }

    /// Waits until this run should give way, and answers why.
    pub async fn cancelled(&self) -> CancelCause {
        self.run.cancel.cancelled().await
    }

    /// A client of the same store, for child jobs and for reading what became of others.
    pub fn client(&self) -> &Client {
        &self.run.services.client
    }

    pub(crate) fn state<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.run.services.states.get::<T>()
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Context(job {}, kind {:?}, attempt {})", self.id(), self.kind(), self.attempt())
    }
}

impl Run {
    /// Marks the beginning or the end of a poll.
    pub(crate) fn note_poll_edge(&self) {
        // ORDER: Relaxed; a count that the watchdog compares with its last look, nothing is published by it.
        self.polls.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of the poll that is under way, if one is.
    pub(crate) fn poll_under_way(&self) -> Option<u64> {
        let edges = self.polls.load(Ordering::Relaxed);
        (edges % 2 == 1).then_some(edges)
    }

    /// The runner gives up waiting for the closure. Answers whether it is still running, and so stuck.
    pub(crate) fn give_up_on_closure(&self) -> bool {
        // ORDER: AcqRel; one location decides between the two ends, see `end_closure`.
        self.closure.compare_exchange(RUNS, STUCK, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The closure has ended. Answers whether it had been counted as stuck.
    pub(crate) fn end_closure(&self) -> bool {
        // ORDER: AcqRel; pairs with the exchange in `give_up_on_closure`.
        self.closure.swap(ENDED, Ordering::AcqRel) == STUCK
    }
}

/// Values that handlers may ask for by type.
#[derive(Default)]
pub(crate) struct States {
    by_type: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
}

impl States {
    pub(crate) fn insert<T: Send + Sync + 'static>(&mut self, value: Arc<T>) {
        self.by_type.insert(TypeId::of::<T>(), value);
    }

    pub(crate) fn has<T: Send + Sync + 'static>(&self) -> bool {
        self.by_type.contains_key(&TypeId::of::<T>())
    }

    fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        let value = Arc::clone(self.by_type.get(&TypeId::of::<T>())?);
        value.downcast().ok()
    }
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Services").field("client", &self.client).finish_non_exhaustive()
    }
}
