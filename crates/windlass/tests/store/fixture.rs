//! A store with a clock that the test moves, and short ways to say what a test does.

use std::sync::Arc;
use std::time::Duration;

use windlass::blocking::block_on;
use windlass::clock::{Clock, ManualClock, Timestamp};
use windlass::entropy::Entropy;
use windlass::job::{ErrorInfo, JobId, JobOptions, JobRecord, LeaseToken, LeasedJob, NewJob, Payload};
use windlass::state::State;
use windlass::store::memory::MemoryStore;
use windlass::store::sharded::ShardedStore;
use windlass::store::sqlite::{SqliteOptions, SqliteStore, Sync};
use windlass::store::{Counts, Finished, Inserted, JobQuery, LeasePlan, MemberId, MemberInfo, Store, Take, Verdict};

/// Makes a test of a function for each store.
macro_rules! for_every_store {
    ($($name:ident),* $(,)?) => {
        mod memory {
            $(#[test] fn $name() { super::$name(&crate::fixture::Fixture::memory()); })*
        }
        mod sharded {
            $(#[test] fn $name() { super::$name(&crate::fixture::Fixture::sharded()); })*
        }
        mod sqlite {
            $(#[test] fn $name() { super::$name(&crate::fixture::Fixture::sqlite()); })*
        }
        #[cfg(feature = "redis")]
        mod redis {
            $(#[test] fn $name() { super::$name(&crate::fixture::Fixture::redis()); })*
        }
    };
}
pub(crate) use for_every_store;

/// When the tests begin: some morning.
pub(crate) const MORNING: Timestamp = Timestamp::from_millis(1_760_000_000_000);
pub(crate) const LEASE: Duration = Duration::from_secs(15);
pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const HOUR: Duration = Duration::from_secs(3_600);

/// In which order a store gives out the ready jobs of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// By the time for which they were due, then by arrival.
    Due,
    /// As they became ready, those handed back first: a Sidekiq queue is a list, and can do no more.
    Ready,
}

pub(crate) struct Fixture {
    pub(crate) order: Order,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) entropy: Entropy,
    _dir: Option<tempfile::TempDir>,
}

impl Fixture {
    pub(crate) fn memory() -> Fixture {
        let clock = Arc::new(ManualClock::new(MORNING));
        let store = Arc::new(MemoryStore::new(Arc::clone(&clock) as Arc<dyn Clock>));
        Fixture { order: Order::Due, store, clock, entropy: Entropy::seeded(7), _dir: None }
    }

    /// Three stores as one.
    pub(crate) fn sharded() -> Fixture {
        let clock = Arc::new(ManualClock::new(MORNING));
        let shard = || Arc::new(MemoryStore::new(Arc::clone(&clock) as Arc<dyn Clock>)) as Arc<dyn Store>;
        let store = Arc::new(ShardedStore::new(vec![shard(), shard(), shard()]).unwrap());
        Fixture { order: Order::Due, store, clock, entropy: Entropy::seeded(7), _dir: None }
    }

    pub(crate) fn sqlite() -> Fixture {
        let clock = Arc::new(ManualClock::new(MORNING));
        let dir = tempfile::tempdir().unwrap();
        // What is kept after a power cut is not what this suite is about.
        let options = SqliteOptions { sync: Sync::Normal, clock: Arc::clone(&clock) as Arc<dyn Clock> };
        let store = Arc::new(SqliteStore::open(dir.path().join("jobs.db"), options).unwrap());
        Fixture { order: Order::Due, store, clock, entropy: Entropy::seeded(7), _dir: Some(dir) }
    }

    /// A namespace of its own in one server, which serves all tests.
    #[cfg(feature = "redis")]
    pub(crate) fn redis() -> Fixture {
        use std::sync::OnceLock;
        use std::sync::atomic::{AtomicU32, Ordering};

        use windlass::store::redis::{RedisOptions, RedisStore};
        use windlass_testbed::RedisServer;

        static SERVER: OnceLock<RedisServer> = OnceLock::new();
        static SPACES: AtomicU32 = AtomicU32::new(0);
        let server = SERVER.get_or_init(|| RedisServer::start().unwrap());
        let clock = Arc::new(ManualClock::new(MORNING));
        let url = format!("{}?namespace=t{}", server.url(), SPACES.fetch_add(1, Ordering::Relaxed));
        let options = RedisOptions { clock: Some(Arc::clone(&clock) as Arc<dyn Clock>) };
        let store = Arc::new(RedisStore::open(&url, options).unwrap());
        Fixture { order: Order::Ready, store, clock, entropy: Entropy::seeded(7), _dir: None }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.store.now()
    }

    pub(crate) fn new_job(&self, options: JobOptions) -> NewJob {
        self.new_job_at(self.now(), options)
    }

    pub(crate) fn new_job_at(&self, run_at: Timestamp, options: JobOptions) -> NewJob {
        let id = JobId::new(self.now(), &self.entropy);
        NewJob::new(id, "kind", Payload::from_bytes("[1]"), run_at, 0, options).unwrap()
    }

    /// Inserts one job of the default queue and answers its id.
    pub(crate) fn insert(&self, options: JobOptions) -> JobId {
        let job = self.new_job(options);
        let id = job.id;
        assert_eq!(block_on(self.store.insert(vec![job])).unwrap(), [Inserted::Accepted(id)]);
        id
    }

    pub(crate) fn insert_many(&self, count: usize) -> Vec<JobId> {
        (0..count).map(|_| self.insert(JobOptions::new())).collect()
    }

    pub(crate) fn join(&self, name: &str) -> MemberId {
        let id = MemberId::new(name, 1, 1);
        let info = MemberInfo {
            id: id.clone(),
            host: name.to_owned(),
            pid: 1,
            queues: vec!["default".to_owned()],
            weights: vec![1],
            concurrency: 10,
            version: "0".to_owned(),
        };
        block_on(self.store.join(info, LEASE)).unwrap();
        id
    }

    pub(crate) fn plan(max: usize) -> LeasePlan {
        LeasePlan { takes: vec![Take { queue: "default".to_owned(), max, at_most_once: false }], max }
    }

    pub(crate) fn lease(&self, member: &MemberId, max: usize) -> Vec<LeasedJob> {
        block_on(self.store.lease(member, Fixture::plan(max))).unwrap()
    }

    pub(crate) fn lease_one(&self, member: &MemberId) -> LeasedJob {
        self.lease(member, 1).pop().expect("a job to lease")
    }

    pub(crate) fn finish(&self, member: &MemberId, token: LeaseToken, verdict: Verdict) -> Finished {
        block_on(self.store.finish(member, vec![(token, verdict)])).unwrap()[0]
    }

    pub(crate) fn get(&self, id: JobId) -> JobRecord {
        block_on(self.store.get(id)).unwrap().expect("the job is in the store")
    }

    pub(crate) fn state(&self, id: JobId) -> Option<State> {
        block_on(self.store.get(id)).unwrap().map(|job| job.state)
    }

    pub(crate) fn counts(&self) -> Counts {
        block_on(self.store.counts()).unwrap()
    }

    pub(crate) fn all(&self, query: JobQuery) -> Vec<JobRecord> {
        let (mut query, mut jobs) = (query, Vec::new());
        loop {
            let page = block_on(self.store.list(query.clone())).unwrap();
            jobs.extend(page.jobs);
            query.after = page.next;
            if query.after.is_none() {
                return jobs;
            }
        }
    }

    pub(crate) fn ids(jobs: &[LeasedJob]) -> Vec<JobId> {
        jobs.iter().map(|job| job.token.job()).collect()
    }
}

pub(crate) fn done() -> Verdict {
    Verdict::Done { result: None, keep: Duration::ZERO }
}

pub(crate) fn error(at: Timestamp) -> ErrorInfo {
    ErrorInfo { class: "E".to_owned(), message: "žádný \"štěstí\"\n".to_owned(), backtrace: None, attempt: 1, at }
}
