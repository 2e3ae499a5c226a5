//! Puts jobs into a store, and changes them there.
//!
//! A [`Client`] turns a typed job and its options into a [`NewJob`], checks it, stamps it with the store's time and
//! an id of its own making, and inserts it. When the call has answered, the job is as durable as the store promises.
//!
//! Nothing is repeated behind the caller's back. When a call fails with an error that may be repeated
//! ([`StoreError::is_transient`](crate::StoreError::is_transient)), repeating `enqueue` is right if nothing was
//! changed, which is what transient errors promise. A caller that may itself be killed between the call and its
//! answer, and must not enqueue twice, makes the job with [`Client::describe`] under an id it remembers, and repeats
//! [`Client::insert`]: an id that is known already changes nothing.

use std::sync::Arc;
use std::time::Duration;

use crate::blocking::BlockingClient;
use crate::clock::Timestamp;
use crate::codec::encode;
use crate::entropy::Entropy;
use crate::error::{Error, InvalidJob, StoreError};
use crate::job::{BATCH_LEN_MAX, Job, JobId, JobOptions, NewJob, Payload, check_name};
use crate::state::State;
use crate::store::{Changed, ClearFilter, Inserted, Keep, ProcessOrder, ProcessTarget, Store, VERB_LEN_MAX};
use crate::sweep::{Edit, JobFilter, Sweep};
use crate::trace::TraceContext;

/// Jobs that `enqueue_many` inserts in one step.
const BATCH_LEN: usize = 4_000;
const _: () = assert!(BATCH_LEN <= BATCH_LEN_MAX);

/// Jobs that are removed in one step.
const SLICE_LEN: usize = 1_000;
const _: () = assert!(SLICE_LEN <= VERB_LEN_MAX);

/// Enqueues jobs and changes them. Cheap to clone, may be shared; holds no job of its own, so dropping it loses
/// nothing.
#[derive(Debug, Clone)]
pub struct Client {
    store: Arc<dyn Store>,
    entropy: Arc<Entropy>,
    traces: Option<Arc<dyn TraceContext>>,
}

impl Client {
    /// A client of `store`.
    pub fn new(store: Arc<dyn Store>) -> Client {
        Client::with_entropy(store, Arc::new(Entropy::from_system()))
    }

    /// A client whose ids come from the caller's source of chance.
    pub fn with_entropy(store: Arc<dyn Store>, entropy: Arc<Entropy>) -> Client {
        Client { store, entropy, traces: None }
    }

    /// The same client, whose jobs are part of the trace that `traces` answers when they are enqueued.
    #[must_use]
    pub fn traced_by(self, traces: Arc<dyn TraceContext>) -> Client {
        Client { traces: Some(traces), ..self }
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The same client for programs without an async runtime.
    pub fn blocking(&self) -> BlockingClient {
        BlockingClient::new(self.clone())
    }

    /// Enqueues a job to run as soon as possible, with its kind's options.
    ///
    /// # Errors
    /// [`Error::InvalidJob`] and [`Error::Encode`] before anything is sent; [`Error::Store`] when the store could not
    /// take it.
    pub async fn enqueue<J: Job>(&self, job: &J) -> Result<JobId, Error> {
        self.with(JobOptions::new()).enqueue(job).await
    }

    /// Enqueues a job to run after `delay`.
    ///
    /// # Errors
    /// As [`Client::enqueue`].
    pub async fn enqueue_in<J: Job>(&self, delay: Duration, job: &J) -> Result<JobId, Error> {
        self.with(JobOptions::new()).enqueue_in(delay, job).await
    }

    /// Enqueues a job to run at `at`; at once when that has passed.
    ///
    /// # Errors
    /// As [`Client::enqueue`].
    pub async fn enqueue_at<J: Job>(&self, at: Timestamp, job: &J) -> Result<JobId, Error> {
        self.with(JobOptions::new()).enqueue_at(at, job).await
    }

    /// Enqueues any number of jobs, four thousand in one commit. Every job is checked before the first is sent.
    ///
    /// # Errors
    /// As [`Client::enqueue`]; [`Error::Partly`] when the store took some and could not take the rest.
    pub async fn enqueue_many<J: Job>(&self, jobs: impl IntoIterator<Item = J>) -> Result<Vec<JobId>, Error> {
        self.with(JobOptions::new()).enqueue_many(jobs).await
    }

    /// The same calls with `options`, which win over those of the kind.
    pub fn with(&self, options: JobOptions) -> Enqueue<'_> {
        Enqueue { client: self, options }
    }

    /// Enqueues a job that has no Rust type: `args` is a JSON array.
    ///
    /// # Errors
    /// As [`Client::enqueue`].
    pub async fn raw(&self, kind: &str, args: &str) -> Result<JobId, Error> {
        self.with(JobOptions::new()).raw(kind, args).await
    }

    /// Makes a complete job out of its parts, with an id of the caller's choosing, and checks it. See
    /// [`Client::insert`].
    ///
    /// # Errors
    /// [`Error::InvalidJob`] and [`Error::Encode`].
    pub fn describe<J: Job>(id: JobId, job: &J, run_at: Timestamp, options: JobOptions) -> Result<NewJob, Error> {
        let options = options.or(J::options());
        Ok(NewJob::new(id, J::KIND, encode(job)?, run_at, J::VERSION, options)?)
    }

    /// Inserts complete jobs in one step, at most [`BATCH_LEN_MAX`]. May be repeated: a job whose id is known is left
    /// as it is.
    ///
    /// # Errors
    /// [`Error::InvalidJob`] before anything is sent; [`Error::Store`] when the store could not take them.
    pub async fn insert(&self, jobs: Vec<NewJob>) -> Result<Vec<Inserted>, Error> {
        jobs.iter().try_for_each(NewJob::validate)?;
        Ok(self.store.insert(jobs).await?)
    }

    /// Calls a job off: cancelled at once unless it is running; then [`Changed::Asked`], and its handler hears of it
    /// within a beat.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::WrongState`] when it has ended already, [`Error::Store`].
    pub async fn cancel(&self, id: JobId) -> Result<Changed, Error> {
        one("cancel", id, self.store.cancel(vec![id]).await)
    }

    /// Puts a job among the dead that is not running.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::WrongState`] while it is running, [`Error::Store`].
    pub async fn kill(&self, id: JobId) -> Result<Changed, Error> {
        one("kill", id, self.store.kill(vec![id]).await)
    }

    /// Makes a scheduled, retry, dead or cancelled job ready now.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::WrongState`], [`Error::Store`].
    pub async fn requeue(&self, id: JobId) -> Result<Changed, Error> {
        one("requeue", id, self.store.requeue(vec![id]).await)
    }

    /// Removes a job that is not running.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::WrongState`] while it is running, [`Error::Store`].
    pub async fn delete(&self, id: JobId) -> Result<Changed, Error> {
        one("delete", id, self.store.delete(vec![id]).await)
    }

    /// Removes every job that matches and is not running, in slices that let others in between. Answers how many.
    ///
    /// # Errors
    /// [`Error::Store`]; what was removed until then stays removed.
    pub async fn clear(&self, filter: ClearFilter) -> Result<u64, Error> {
        let mut removed = 0;
        loop {
            let slice = self.store.clear(filter.clone(), SLICE_LEN).await?;
            removed += slice as u64;
            if slice == 0 {
                return Ok(removed);
            }
        }
    }

    /// Removes what has been kept long enough by `keep`, in slices that let others in between. Answers how many.
    ///
    /// # Errors
    /// [`Error::Store`]; what was removed until then stays removed.
    pub async fn prune(&self, keep: Keep) -> Result<u64, Error> {
        let mut removed = 0;
        loop {
            let slice = self.store.prune(keep, SLICE_LEN).await?;
            removed += slice as u64;
            if slice < SLICE_LEN {
                return Ok(removed);
            }
        }
    }

    /// Stops leases from a queue, in every process, until it is resumed. Answers whether that changed anything.
    ///
    /// # Errors
    /// [`Error::InvalidJob`] for a name no queue may have, [`Error::Store`].
    pub async fn pause(&self, queue: &str) -> Result<bool, Error> {
        check_name("queue", queue)?;
        Ok(self.store.pause(queue).await?)
    }

    /// Ends a pause. Answers whether that changed anything.
    ///
    /// # Errors
    /// [`Error::InvalidJob`] for a name no queue may have, [`Error::Store`].
    pub async fn resume(&self, queue: &str) -> Result<bool, Error> {
        check_name("queue", queue)?;
        Ok(self.store.resume(queue).await?)
    }

    /// Orders one process, or every process, to do something at its next beat: a few seconds from now. Answers how
    /// many will hear of it.
    ///
    /// # Errors
    /// [`Error::NoSuchProcess`] when the one named does not work on the store, [`Error::Store`].
    pub async fn order(&self, to: ProcessTarget, order: ProcessOrder) -> Result<usize, Error> {
        let reached = self.store.order(to.clone(), order).await?;
        match to {
            ProcessTarget::One(id) if reached == 0 => Err(Error::NoSuchProcess { id: id.to_string() }),
            _ => Ok(reached),
        }
    }

    /// Begins to change every job that `filter` chooses, in steps: what a dashboard does with "all". See [`Sweep`].
    ///
    /// # Errors
    /// [`Error::Store`] when the store cannot say how many there are.
    pub async fn sweep(&self, edit: Edit, filter: JobFilter) -> Result<Sweep, Error> {
        Sweep::begin(Arc::clone(&self.store), edit, filter).await
    }
}

/// What a verb did to the one job it was given.
fn one(tried: &'static str, id: JobId, answer: Result<Vec<Changed>, StoreError>) -> Result<Changed, Error> {
    match answer?.first().copied() {
        Some(Changed::NotFound) | None => Err(Error::NotFound { id: id.to_string() }),
        Some(Changed::Refused(state)) => Err(wrong_state(tried, id, state)),
        Some(changed) => Ok(changed),
    }
}

fn wrong_state(tried: &'static str, id: JobId, state: State) -> Error {
    Error::WrongState { tried, id: id.to_string(), state }
}

/// A client with options for the next call. Made by [`Client::with`].
#[derive(Debug, Clone)]
pub struct Enqueue<'a> {
    client: &'a Client,
    options: JobOptions,
}

impl Enqueue<'_> {
    /// See [`Client::enqueue`].
    ///
    /// # Errors
    /// As there.
    pub async fn enqueue<J: Job>(&self, job: &J) -> Result<JobId, Error> {
        self.enqueue_at(self.now(), job).await
    }

    /// See [`Client::enqueue_in`].
    ///
    /// # Errors
    /// As there.
    pub async fn enqueue_in<J: Job>(&self, delay: Duration, job: &J) -> Result<JobId, Error> {
        self.enqueue_at(self.now() + delay, job).await
    }

    /// See [`Client::enqueue_at`].
    ///
    /// # Errors
    /// As there.
    pub async fn enqueue_at<J: Job>(&self, at: Timestamp, job: &J) -> Result<JobId, Error> {
        let job = Client::describe(self.new_id(), job, at, self.traced_options())?;
        self.insert_one(job).await
    }

    /// See [`Client::enqueue_many`].
    ///
    /// # Errors
    /// As there.
    pub async fn enqueue_many<J: Job>(&self, jobs: impl IntoIterator<Item = J>) -> Result<Vec<JobId>, Error> {
        let (now, options) = (self.now(), self.traced_options());
        let describe = |job: J| Client::describe(self.new_id(), &job, now, options.clone());
        let jobs: Vec<NewJob> = jobs.into_iter().map(describe).collect::<Result<_, Error>>()?;
        self.insert_all(jobs).await
    }

    /// See [`Client::raw`].
    ///
    /// # Errors
    /// As there.
    pub async fn raw(&self, kind: &str, args: &str) -> Result<JobId, Error> {
        self.raw_at(self.now(), kind, args).await
    }

    /// Enqueues a job that has no Rust type, to run at `at`.
    ///
    /// # Errors
    /// As [`Client::raw`].
    pub async fn raw_at(&self, at: Timestamp, kind: &str, args: &str) -> Result<JobId, Error> {
        if let Err(error) = serde_json::from_str::<Vec<&serde_json::value::RawValue>>(args) {
            let allowed = format!("a JSON array of arguments ({error})");
            return Err(InvalidJob::new("payload", "no JSON array".to_owned(), allowed).into());
        }
        let payload = Payload::from_bytes(args);
        let job = NewJob::new(self.new_id(), kind, payload, at, 0, self.traced_options())?;
        self.insert_one(job).await
    }

    /// The options, with the trace that the caller is part of.
    fn traced_options(&self) -> JobOptions {
        let mut options = self.options.clone();
        if options.trace.is_none() {
            options.trace = self.client.traces.as_ref().and_then(|traces| traces.current());
        }
        options
    }

    fn now(&self) -> Timestamp {
        self.client.store.now()
    }

    fn new_id(&self) -> JobId {
        JobId::new(self.now(), &self.client.entropy)
    }

    async fn insert_one(&self, job: NewJob) -> Result<JobId, Error> {
        let id = job.id;
        #[cfg(feature = "server")]
        let span = tracing::debug_span!("enqueue", job.id = %id, job.kind = job.kind, queue = job.queue);
        let inserting = self.client.store.insert(vec![job]);
        #[cfg(feature = "server")]
        let inserting = tracing::Instrument::instrument(inserting, span);
        inserting.await?;
        Ok(id)
    }

    /// Inserts in batches, one after the other, so that what is stored is always the beginning of the list.
    async fn insert_all(&self, jobs: Vec<NewJob>) -> Result<Vec<JobId>, Error> {
        let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
        let (total, mut accepted) = (jobs.len(), 0);
        let mut jobs = jobs.into_iter();
        loop {
            let batch: Vec<NewJob> = jobs.by_ref().take(BATCH_LEN).collect();
            if batch.is_empty() {
                return Ok(ids);
            }
            let len = batch.len();
            match self.client.store.insert(batch).await {
                Ok(_) => accepted += len,
                Err(cause) if accepted == 0 => return Err(cause.into()),
                Err(cause) => {
                    return Err(Error::Partly { accepted, total, cause });
                }
            }
        }
    }
}
