//! The contract between the engine and whatever keeps its jobs.
//!
//! A [`Store`] offers a small set of *verbs*. Each verb is one atomic step: it happens whole, or not at all and
//! says so; when it answers, what it did is as durable as the store promises. Each is batched where work is per
//! job. The store judges every instant by its own clock ([`Store::now`]), never by the caller's.
//!
//! # Members and ledgers
//! A server process is a *member*. [`Store::join`] makes it one for the length of its lease, [`Store::beat`]
//! extends that, [`Store::leave`] ends it. What a member leased sits in its *ledger*. A member that misses its
//! lease loses the whole ledger in one step when anybody calls [`Store::reap`]: the jobs go back to their queues,
//! and every later write by that member is refused, with [`StoreError::Fenced`] or [`Finished::Fenced`], never in
//! silence. So liveness costs one small write for a process, however many jobs it runs, and no job is taken away
//! because it takes long.
//!
//! # What a store never does
//! It calls no handler, decides no retry, reads no payload and knows no weights: the engine hands it plans and
//! verdicts. What a job may become is decided by the table in [`crate::state`], which every store asks.
//!
//! Read [`memory`] first: it is the contract in its plainest form. One conformance suite holds every store to it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::{ErrorInfo, JobId, JobRecord, LeaseToken, LeasedJob, NewJob, Payload};
use crate::state::State;

pub(crate) mod limits;
pub mod measure;
pub mod memory;
#[cfg(feature = "redis")]
pub mod redis;
pub mod sharded;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub(crate) mod url;

pub use measure::{Histogram, KindMeasure, Measure, Percentiles, Point, Sample, Series, SeriesQuery, Span};
pub use url::open;

/// The answer of a verb, when it is there.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// The shortest lease of a member.
pub const LEASE_MIN: Duration = Duration::from_secs(1);
/// The longest lease of a member: 24 h.
pub const LEASE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Recoveries within [`RECOVERY_WINDOW`] that make a job dead: what crashes three processes is not run again.
pub const RECOVERIES_MAX: u32 = 3;
/// Recoveries that make a job a *suspect*: a member holds one suspect at a time, so that a job that crashes its
/// process takes no others to the dead with it.
pub const RECOVERIES_SUSPECT: u32 = RECOVERIES_MAX - 1;
/// How long a recovery is held against a job, from the first one: 72 h.
pub const RECOVERY_WINDOW: Duration = Duration::from_secs(72 * 60 * 60);
/// The most jobs one call of `lease`, `finish`, `reap`, `promote`, `prune` or a client's bulk verb handles.
pub const VERB_LEN_MAX: usize = 5_000;
/// The most records on one page of [`Store::list`].
pub const PAGE_LEN_MAX: usize = 1_000;
/// The longest text to search for, in bytes.
pub const SEARCH_LEN_MAX: usize = 256;

/// Keeps jobs. Shared between threads as `Arc<dyn Store>`; every method may be called from any thread and needs no
/// particular async runtime.
///
/// # Errors
/// Every verb may answer [`StoreError::Full`], [`StoreError::Unavailable`], [`StoreError::Broken`] or
/// [`StoreError::Closed`]; then nothing was changed.
pub trait Store: Send + Sync + fmt::Debug + 'static {
    /// What this store is: engine, place, durability, for messages and for people.
    fn describe(&self) -> StoreInfo;

    /// The present, by the store's clock.
    fn now(&self) -> Timestamp;

    /// Stores the whole batch in one step: ready where `run_at` is not ahead of [`Store::now`], else scheduled.
    ///
    /// A job whose id is known already is left as it is and answered with [`Inserted::Duplicate`], so a push whose
    /// answer was lost may be repeated (within 25 h, where ids are not kept with the jobs: Redis). Answers are in the order of the batch. At most [`crate::job::BATCH_LEN_MAX`]
    /// jobs, each valid ([`NewJob::validate`]); else [`StoreError::Invalid`] and nothing is stored.
    fn insert(&self, batch: Vec<NewJob>) -> Reply<'_, Vec<Inserted>>;

    /// Stores jobs that come from another store, each in the state in which it stood there, in one step.
    ///
    /// Times, attempts, runs, recoveries, errors and results come with them; a job is put at the back of its equals. A job
    /// whose id is known already is left as it is and answered with [`Inserted::Duplicate`], so a restore whose answer
    /// was lost may be repeated. It is no enqueuing: the totals do not count it. At most
    /// [`crate::job::BATCH_LEN_MAX`] jobs, none of them running; else [`StoreError::Invalid`] and nothing is stored.
    fn restore(&self, batch: Vec<JobRecord>) -> Reply<'_, Vec<Inserted>>;

    /// Takes up to `plan.max` ready jobs into the member's ledger, following `plan.takes` in order and each queue
    /// in the order of `run_at`, oldest first; in a store whose queues are lists (Redis), in the order in which they
    /// became ready, those that were handed back first. Attempt and run are counted up.
    ///
    /// Paused queues give nothing. A job past its `expires_at` that has never run goes to the dead with the reason "expired"
    /// instead, and does not count as taken. A job with [`RECOVERIES_SUSPECT`] recoveries is passed over while the
    /// member holds another such job. A take marked at-most-once marks its jobs so.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] when `member` is not, or no longer, a member.
    fn lease(&self, member: &MemberId, plan: LeasePlan) -> Reply<'_, Vec<LeasedJob>>;

    /// Ends runs: for each token removes the job from the member's ledger and writes what becomes of it, in one
    /// step. Answers are in the order given. [`Finished::Fenced`] where the token is not, or no longer, good: then
    /// that job is not touched, while the others land.
    fn finish(&self, member: &MemberId, verdicts: Vec<(LeaseToken, Verdict)>) -> Reply<'_, Vec<Finished>>;

    /// Makes a process a member until `lease` from now. Each process start is a new identity.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when the lease is outside [`LEASE_MIN`] to [`LEASE_MAX`] or the id is taken.
    fn join(&self, member: MemberInfo, lease: Duration) -> Reply<'_, ()>;

    /// Extends the member's lease to its full length from now, records how the process does, and tells it what
    /// others want of it.
    ///
    /// A lease that has run out but that nobody has reaped yet is extended all the same: until a reap, the ledger
    /// belongs to the member, and its verdicts land.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] when it is no longer a member.
    fn beat(&self, member: &MemberId, vitals: Vitals) -> Reply<'_, Orders>;

    /// Leaves an order for one process or for all. Each member it reaches is told at its next beat, once; what waits
    /// already is not told twice. Answers how many members it reaches: 0 when the one named is not, or no longer, a
    /// member. An order to all reaches who is a member now, and nobody who joins later.
    fn order(&self, to: ProcessTarget, order: ProcessOrder) -> Reply<'_, usize>;

    /// Ends a membership. Jobs still in the ledger go back to the front of their queues with their attempt given
    /// back, except those at-most-once, which are dead ("interrupted"). Answers how many jobs there were. Not an
    /// error when the membership is gone already.
    fn leave(&self, member: &MemberId) -> Reply<'_, usize>;

    /// Removes members whose lease has run out and hands on up to `max` of their jobs: to the front of their queue
    /// with one recovery more and the attempt given back; to the dead at [`RECOVERIES_MAX`] recoveries within
    /// [`RECOVERY_WINDOW`] ("poison"), when at-most-once ("interrupted"), or when cancelling was asked for (then
    /// cancelled). The members lose all their rights in the same step, also where `max` leaves jobs for the next
    /// call. Any process may call it at any time.
    fn reap(&self, max: usize) -> Reply<'_, Reaped>;

    /// Makes up to `max` scheduled and retry jobs ready that are due, the earliest first, and answers when the next
    /// one is due. Jobs past `expires_at` go to the dead ("expired") instead. Correct under any number of callers.
    fn promote(&self, max: usize) -> Reply<'_, Promoted>;

    /// How often jobs have become ready so far, as this process knows. Read it before looking for work, and give it
    /// to [`Store::wait`].
    fn ring(&self) -> Ring;

    /// Answers when jobs have become ready since `since`, or after `timeout` at the latest. A hint: it may answer
    /// for nothing, and may miss a job that another process enqueued for as long as `timeout`.
    fn wait(&self, since: Ring, timeout: Duration) -> Reply<'_, ()>;

    /// Calls off jobs: cancelled at once unless running; a running job's member is told at its next beat.
    fn cancel(&self, ids: Vec<JobId>) -> Reply<'_, Vec<Changed>>;

    /// Puts jobs that are not running among the dead, with the reason "killed".
    fn kill(&self, ids: Vec<JobId>) -> Reply<'_, Vec<Changed>>;

    /// Makes scheduled, retry, dead and cancelled jobs ready now. Attempts and recoveries of dead and cancelled
    /// jobs start again at 0.
    fn requeue(&self, ids: Vec<JobId>) -> Reply<'_, Vec<Changed>>;

    /// Removes jobs that are not running.
    fn delete(&self, ids: Vec<JobId>) -> Reply<'_, Vec<Changed>>;

    /// Removes up to `max` jobs that match and are not running; answers how many. 0 means there are none left.
    fn clear(&self, filter: ClearFilter, max: usize) -> Reply<'_, usize>;

    /// Removes up to `max` jobs whose time to be kept is over by `keep`, and the oldest dead beyond
    /// `keep.dead_count_max`; answers how many. Fewer than `max` means there are none left.
    fn prune(&self, keep: Keep, max: usize) -> Reply<'_, usize>;

    /// Stops leases from a queue, also of jobs enqueued later, in every process. Answers whether that changed
    /// anything.
    fn pause(&self, queue: &str) -> Reply<'_, bool>;

    /// Ends a pause. Answers whether that changed anything.
    fn resume(&self, queue: &str) -> Reply<'_, bool>;

    /// Everything known of one job, or `None` if there is none.
    fn get(&self, id: JobId) -> Reply<'_, Option<JobRecord>>;

    /// One page of jobs. Live states are listed by `run_at`, oldest first; final states by `finished_at`, newest
    /// first; all states together by their arrival in the store, newest first; equals by their arrival. In a store
    /// whose queues are lists (Redis), ready jobs are listed queue by queue as they would be taken, and all states
    /// together one after the other. A page may be short, even empty, and still have a next one: each call reads a bounded number of records.
    fn list(&self, query: JobQuery) -> Reply<'_, JobPage>;

    /// How many jobs are in each state, and what has happened in all, exactly as of some recent instant.
    fn counts(&self) -> Reply<'_, Counts>;

    /// Every queue that holds jobs or is paused, by name.
    fn queues(&self) -> Reply<'_, Vec<QueueInfo>>;

    /// Every member, by the time it joined, with up to 100 of the jobs each is running.
    fn processes(&self) -> Reply<'_, Vec<ProcessInfo>>;

    /// What happened on each of the last `days` UTC days (1 to 90), newest first; days without jobs are left out.
    fn history(&self, days: u32) -> Reply<'_, Vec<DayTotals>>;

    /// Adds what a member's runs came to, since it last told, to the measurements of the present minute; and counts
    /// the ready jobs of each queue if nobody has in this minute. What is too old, or too much to be told apart, is
    /// forgotten or summed up as [`measure`] says. At most [`measure::SAMPLES_MAX`] samples; none is allowed.
    ///
    /// A call whose answer was lost may have been counted: measurements are for people, and need not be exact.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] when `member` is not, or no longer, a member.
    fn record(&self, member: &MemberId, samples: Vec<Sample>) -> Reply<'_, ()>;

    /// Measurements over time, up to the present.
    fn series(&self, query: SeriesQuery) -> Reply<'_, Series>;

    /// What each pair of kind and queue came to since it was first seen, in that order. The sums only grow, until a
    /// pair that has not been seen for a month makes room.
    fn meters(&self) -> Reply<'_, Vec<Sample>>;

    /// Examines the store for what `doctor` reports: version, integrity, durability, room.
    fn check(&self) -> Reply<'_, Vec<Finding>>;

    /// Takes no more calls, finishes those under way and lets go of its resources. Later calls answer
    /// [`StoreError::Closed`].
    fn close(&self) -> Reply<'_, ()>;
}

/// What a store is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StoreInfo {
    /// `memory`, `sqlite` or `redis`.
    pub engine: &'static str,
    /// Where it is, as a URL without secrets.
    pub url: String,
    /// What an answered call has survived: in words.
    pub durability: &'static str,
}

/// What became of one job of an inserted batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inserted {
    /// It is stored.
    Accepted(JobId),
    /// A job of this id was there already; it is unchanged.
    Duplicate(JobId),
}

impl Inserted {
    /// The id, either way.
    pub fn id(self) -> JobId {
        match self {
            Inserted::Accepted(id) | Inserted::Duplicate(id) => id,
        }
    }
}

/// One start of one server process: `host:pid:nonce`, never used again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MemberId(String);

impl MemberId {
    /// An identity out of a host name, a process id and random bits.
    pub fn new(host: &str, pid: u32, nonce: u64) -> MemberId {
        MemberId(format!("{host}:{pid}:{nonce:016x}"))
    }

    /// The stored text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for MemberId {
    fn from(text: String) -> MemberId {
        MemberId(text)
    }
}

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// What a process says of itself when it joins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberInfo {
    /// Its identity.
    pub id: MemberId,
    /// The machine.
    pub host: String,
    /// The process.
    pub pid: u32,
    /// The queues it serves, in order.
    pub queues: Vec<String>,
    /// The share of each of these queues; 0 for all when the first one goes before the others. Empty: not told.
    #[serde(default)]
    pub weights: Vec<u32>,
    /// How many jobs it runs at a time.
    pub concurrency: u32,
    /// The version of the engine.
    pub version: String,
}

/// How a process does, told with every beat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Vitals {
    /// Resident memory in bytes; 0 if unknown.
    pub rss_bytes: u64,
    /// Jobs whose handler is running.
    pub busy: u32,
    /// Whether it has stopped leasing.
    pub quiet: bool,
    /// Outcomes refused because the lease was gone, since it started.
    pub fenced: u64,
    /// Handlers that outlived their time-out and grace.
    pub stuck: u32,
}

/// What others want of a member, told with every beat.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Orders {
    /// Runs that somebody asked to cancel. Repeated at every beat until they are finished.
    pub cancel: Vec<LeaseToken>,
    /// What the process itself is to do. Told once, each at most once a beat, in the order of [`ProcessOrder::ALL`].
    pub process: Vec<ProcessOrder>,
}

/// What somebody may want of a whole process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProcessOrder {
    /// To say in its log what it is running.
    Dump,
    /// To lease no more, and go on with what runs.
    Quiet,
    /// To stop gracefully.
    Stop,
}

impl ProcessOrder {
    /// Every order, the gentlest first.
    pub const ALL: [ProcessOrder; 3] = [ProcessOrder::Dump, ProcessOrder::Quiet, ProcessOrder::Stop];

    /// The word for it, lower case.
    pub const fn name(self) -> &'static str {
        match self {
            ProcessOrder::Dump => "dump",
            ProcessOrder::Quiet => "quiet",
            ProcessOrder::Stop => "stop",
        }
    }
}

impl fmt::Display for ProcessOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// For whom an order is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessTarget {
    /// One process.
    One(MemberId),
    /// Every process that is a member now.
    All,
}

/// How many jobs to take, and from where.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LeasePlan {
    /// What to take, in order. A queue may come twice: first for its share, later for what is left.
    pub takes: Vec<Take>,
    /// The most jobs in all; at most [`VERB_LEN_MAX`].
    pub max: usize,
}

/// One step of a [`LeasePlan`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Take {
    /// From which queue.
    pub queue: String,
    /// At most this many in this step.
    pub max: usize,
    /// Whether jobs of this queue must never run twice.
    pub at_most_once: bool,
}

/// What becomes of a job whose run has ended. Decided by the runner; written by the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Succeeded: kept for `keep` with its result, or removed when `keep` is zero.
    Done {
        /// What the handler returned, as JSON.
        result: Option<Payload>,
        /// How long to keep it.
        keep: Duration,
    },
    /// Failed, not worth keeping: removed.
    Discard,
    /// Failed: due again at `at`.
    Retry {
        /// When.
        at: Timestamp,
        /// Why.
        error: ErrorInfo,
    },
    /// Failed for good.
    Dead {
        /// A short, stable phrase: `attempts used up`, `undecodable`, `interrupted` …
        reason: String,
        /// What went wrong.
        error: Option<ErrorInfo>,
    },
    /// Not yet: scheduled for `until`, attempt given back.
    Snooze {
        /// When.
        until: Timestamp,
    },
    /// Handed back: ready, at the front, attempt given back.
    Release,
    /// Gave way to a request to cancel.
    Cancelled {
        /// Who or what asked.
        reason: String,
    },
}

impl Verdict {
    /// The word for it, lower case: for logs.
    pub const fn name(&self) -> &'static str {
        match self {
            Verdict::Done { .. } => "done",
            Verdict::Discard => "discard",
            Verdict::Retry { .. } => "retry",
            Verdict::Dead { .. } => "dead",
            Verdict::Snooze { .. } => "snooze",
            Verdict::Release => "release",
            Verdict::Cancelled { .. } => "cancelled",
        }
    }
}

/// Whether a verdict was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Finished {
    /// It is stored.
    Landed,
    /// The token was no longer good: the job belongs to somebody else, or has ended. Nothing was changed.
    Fenced,
}

/// What a reap did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reaped {
    /// Members removed.
    pub members: Vec<MemberId>,
    /// Jobs that are ready again.
    pub recovered: usize,
    /// Jobs that are dead now.
    pub dead: usize,
    /// Jobs whose cancelling was completed.
    pub cancelled: usize,
    /// Whether `max` left jobs for another call.
    pub more: bool,
}

/// What a promotion did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Promoted {
    /// Jobs that are ready now.
    pub ready: usize,
    /// Jobs that had expired.
    pub expired: usize,
    /// When the next job is due; possibly in the past when `max` left some. `None`: nothing is scheduled.
    pub next_due: Option<Timestamp>,
}

/// A count of the times that jobs became ready. Only comparisons mean anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Ring(pub u64);

/// What a client's verb did to one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// It was in this state, and has moved.
    From(State),
    /// It is running; its member has been asked.
    Asked,
    /// Its state does not allow it; nothing was changed.
    Refused(State),
    /// There is no such job.
    NotFound,
}

/// Which jobs to remove.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClearFilter {
    /// Only in this state; never running. `None`: in any state but running.
    pub state: Option<State>,
    /// Only in this queue.
    pub queue: Option<String>,
}

/// How long ended jobs are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keep {
    /// Dead jobs: 180 days by default (long enough to find out what happened).
    pub dead: Duration,
    /// The most dead jobs: 10,000 by default; the oldest go first.
    pub dead_count_max: u64,
    /// Cancelled jobs: 24 h by default (long enough to look the next morning).
    pub cancelled: Duration,
}

impl Default for Keep {
    fn default() -> Keep {
        let day = Duration::from_secs(24 * 60 * 60);
        Keep { dead: 180 * day, dead_count_max: 10_000, cancelled: day }
    }
}

/// Which jobs to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobQuery {
    /// Only in this state.
    pub state: Option<State>,
    /// Only in this queue.
    pub queue: Option<String>,
    /// Only of this kind.
    pub kind: Option<String>,
    /// Only with this text in its id, its kind, its arguments as they are stored, or the class or message of its last
    /// error; letter by letter, at most [`SEARCH_LEN_MAX`] bytes. An empty text is in every job.
    pub search: Option<String>,
    /// Go on after this place: [`JobPage::next`] of the page before.
    pub after: Option<Cursor>,
    /// Records on the page, 1 to [`PAGE_LEN_MAX`].
    pub limit: usize,
}

impl Default for JobQuery {
    fn default() -> JobQuery {
        JobQuery { state: None, queue: None, kind: None, search: None, after: None, limit: 100 }
    }
}

impl JobQuery {
    /// Whether the job is one of those to list.
    pub(crate) fn matches(&self, job: &JobRecord) -> bool {
        self.state.is_none_or(|state| state == job.state)
            && self.queue.as_ref().is_none_or(|queue| *queue == job.queue)
            && self.kind.as_ref().is_none_or(|kind| *kind == job.kind)
            && self.search.as_ref().is_none_or(|text| says(job, text))
    }
}

/// Whether a text is in what people search through.
fn says(job: &JobRecord, text: &str) -> bool {
    let is_in_error = |error: &ErrorInfo| error.class.contains(text) || error.message.contains(text);
    job.kind.contains(text)
        || job.error.as_ref().is_some_and(is_in_error)
        || job.payload.contains(text)
        || job.id.to_string().contains(text)
}

/// A place in a listing. Good for the query it came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// The instant the listing is sorted by, in Unix milliseconds.
    pub at_ms: i64,
    /// The order of arrival, among equals.
    pub arrival: i64,
}

/// One page of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobPage {
    /// The records.
    pub jobs: Vec<JobRecord>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<Cursor>,
}

/// How many jobs there are, and what has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counts {
    /// Waiting for their time.
    pub scheduled: u64,
    /// Ready.
    pub ready: u64,
    /// Running.
    pub running: u64,
    /// Failed and waiting for the next attempt.
    pub retry: u64,
    /// Done and kept.
    pub done: u64,
    /// Dead.
    pub dead: u64,
    /// Cancelled.
    pub cancelled: u64,
    /// Since the store was made.
    pub totals: Totals,
}

impl Counts {
    /// How many are in `state`.
    pub fn of(&self, state: State) -> u64 {
        match state {
            State::Scheduled => self.scheduled,
            State::Ready => self.ready,
            State::Running => self.running,
            State::Retry => self.retry,
            State::Done => self.done,
            State::Dead => self.dead,
            State::Cancelled => self.cancelled,
        }
    }

    /// The count of `state`, to change.
    pub fn of_mut(&mut self, state: State) -> &mut u64 {
        match state {
            State::Scheduled => &mut self.scheduled,
            State::Ready => &mut self.ready,
            State::Running => &mut self.running,
            State::Retry => &mut self.retry,
            State::Done => &mut self.done,
            State::Dead => &mut self.dead,
            State::Cancelled => &mut self.cancelled,
        }
    }
}

/// Things that have happened to jobs. Each counts jobs, once for each time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Totals {
    /// Accepted from clients.
    pub enqueued: u64,
    /// Runs that succeeded.
    pub done: u64,
    /// Runs that failed, whether retried, dead or discarded.
    pub failed: u64,
    /// Jobs that went to the dead, for any reason.
    pub dead: u64,
    /// Jobs handed on after their member was lost, dead ones included.
    pub recovered: u64,
    /// Jobs cancelled.
    pub cancelled: u64,
    /// Jobs that expired before they started (also counted as dead).
    pub expired: u64,
    /// Outcomes refused because the token was no longer good.
    pub fenced: u64,
}

impl Totals {
    /// The sum of both.
    pub(crate) fn plus(mut self, other: &Totals) -> Totals {
        self.enqueued += other.enqueued;
        self.done += other.done;
        self.failed += other.failed;
        self.dead += other.dead;
        self.recovered += other.recovered;
        self.cancelled += other.cancelled;
        self.expired += other.expired;
        self.fenced += other.fenced;
        self
    }
}

/// One day's happenings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct DayTotals {
    /// The beginning of the day, UTC.
    pub day: Timestamp,
    /// What happened.
    pub totals: Totals,
}

/// One queue, as people see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QueueInfo {
    /// Its name.
    pub name: String,
    /// Jobs ready to be leased.
    pub ready: u64,
    /// Jobs running now.
    pub running: u64,
    /// Jobs scheduled or waiting for a retry.
    pub waiting: u64,
    /// How long the oldest ready job has been ready, in milliseconds; 0 when there is none.
    pub latency_ms: u64,
    /// Whether leases from it are stopped.
    pub paused: bool,
}

/// One process, as people see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcessInfo {
    /// What it said when it joined.
    pub info: MemberInfo,
    /// When that was.
    pub joined_at: Timestamp,
    /// When it last beat.
    pub beat_at: Timestamp,
    /// Until when it is a member unless it beats again.
    pub lease_until: Timestamp,
    /// How it does.
    pub vitals: Vitals,
    /// Jobs in its ledger.
    pub running: u64,
    /// Up to 100 of them, the longest-running first.
    pub jobs: Vec<RunningJob>,
}

/// A job that a process is running.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunningJob {
    /// Which job.
    pub id: JobId,
    /// Of which kind.
    pub kind: String,
    /// From which queue.
    pub queue: String,
    /// Since when.
    pub leased_at: Timestamp,
    /// Which attempt.
    pub attempt: u32,
}

/// How serious a [`Finding`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// As it should be.
    Good,
    /// Works, and could be better.
    Warning,
    /// Must be mended.
    Problem,
}

/// One thing an examination of the store found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How serious it is.
    pub severity: Severity,
    /// What was examined.
    pub subject: &'static str,
    /// What was found, and what to do if that is needed.
    pub detail: String,
}
