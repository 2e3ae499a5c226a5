//! The table of transitions, row by row: what it allows happens, what it does not is refused and changes nothing.

use std::sync::Arc;
use std::time::Duration;

use windlass::Timestamp;
use windlass::blocking::block_on;
use windlass::clock::{Clock, ManualClock};
use windlass::entropy::Entropy;
use windlass::job::{ErrorInfo, JobId, JobOptions, LeasedJob, NewJob, Payload};
use windlass::state::{Event, State, TRANSITIONS, is_allowed};
use windlass::store::memory::MemoryStore;
use windlass::store::sqlite::{SqliteOptions, SqliteStore};
use windlass::store::{Changed, Keep, LeasePlan, MemberId, MemberInfo, Store, Take, Verdict};

const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(15);

struct World {
    store: Arc<dyn Store>,
    clock: Arc<ManualClock>,
    member: MemberId,
    _dir: tempfile::TempDir,
}

/// One world for each store.
fn worlds() -> Vec<World> {
    let engines: &[&str] = if cfg!(feature = "redis") { &["memory", "sqlite", "redis"] } else { &["memory", "sqlite"] };
    let world = |engine: &&str| {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_760_000_000_000)));
        let shared = Arc::clone(&clock) as Arc<dyn Clock>;
        let store: Arc<dyn Store> = match *engine {
            "sqlite" => {
                let options = SqliteOptions { clock: shared, ..SqliteOptions::default() };
                Arc::new(SqliteStore::open(dir.path().join("jobs.db"), options).unwrap())
            }
            #[cfg(feature = "redis")]
            "redis" => redis_store(shared),
            _ => Arc::new(MemoryStore::new(shared)),
        };
        let member = MemberId::new("m", 1, 1);
        let info = MemberInfo {
            id: member.clone(),
            host: "m".to_owned(),
            pid: 1,
            queues: Vec::new(),
            weights: Vec::new(),
            concurrency: 1,
            version: "0".to_owned(),
        };
        block_on(store.join(info, LEASE)).unwrap();
        World { store, clock, member, _dir: dir }
    };
    engines.iter().map(world).collect()
}

/// A namespace of its own in one server.
#[cfg(feature = "redis")]
fn redis_store(clock: Arc<dyn Clock>) -> Arc<dyn Store> {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    use windlass::store::redis::{RedisOptions, RedisStore};
    use windlass_testbed::RedisServer;

    static SERVER: OnceLock<RedisServer> = OnceLock::new();
    static SPACES: AtomicU32 = AtomicU32::new(0);
    let server = SERVER.get_or_init(|| RedisServer::start().unwrap());
    let url = format!("{}?namespace=t{}", server.url(), SPACES.fetch_add(1, Ordering::Relaxed));
    Arc::new(RedisStore::open(&url, RedisOptions { clock: Some(clock) }).unwrap())
}

impl World {
    fn insert(&self, delay: Duration, options: JobOptions) -> JobId {
        let id = JobId::new(self.store.now(), &Entropy::from_system());
        let job = NewJob::new(id, "kind", Payload::from_bytes("[]"), self.store.now() + delay, 0, options).unwrap();
        block_on(self.store.insert(vec![job])).unwrap();
        id
    }

    /// A job that died in another store.
    fn restore_dead(&self) -> JobId {
        let other = worlds().remove(0);
        let id = other.job_in(State::Dead);
        let dead = block_on(other.store.get(id)).unwrap().unwrap();
        block_on(self.store.restore(vec![dead])).unwrap();
        id
    }

    fn lease(&self) -> LeasedJob {
        let take = Take { queue: "default".to_owned(), max: 1, at_most_once: false };
        let plan = LeasePlan { takes: vec![take], max: 1 };
        block_on(self.store.lease(&self.member, plan)).unwrap().pop().unwrap()
    }

    fn finish(&self, job: &LeasedJob, verdict: Verdict) {
        let _ = block_on(self.store.finish(&self.member, vec![(job.token, verdict)])).unwrap();
    }

    /// A job in `state`, the only one in the store.
    fn job_in(&self, state: State) -> JobId {
        match state {
            State::Scheduled => self.insert(1_000 * SECOND, JobOptions::new()),
            State::Ready => self.insert(Duration::ZERO, JobOptions::new()),
            State::Running | State::Retry | State::Done | State::Dead | State::Cancelled => {
                let id = self.insert(Duration::ZERO, JobOptions::new());
                let job = self.lease();
                if let Some(verdict) = self.verdict_to(state) {
                    self.finish(&job, verdict);
                }
                id
            }
        }
    }

    fn verdict_to(&self, state: State) -> Option<Verdict> {
        let at = self.store.now() + 1_000 * SECOND;
        let error = ErrorInfo {
            class: "E".to_owned(),
            message: String::new(),
            backtrace: None,
            attempt: 1,
            at: self.store.now(),
        };
        match state {
            State::Retry => Some(Verdict::Retry { at, error }),
            State::Done => Some(Verdict::Done { result: None, keep: 1_000 * SECOND }),
            State::Dead => Some(Verdict::Dead { reason: "r".to_owned(), error: Some(error) }),
            State::Cancelled => Some(Verdict::Cancelled { reason: "r".to_owned() }),
            State::Scheduled | State::Ready | State::Running => None,
        }
    }

    fn state(&self, id: JobId) -> Option<State> {
        block_on(self.store.get(id)).unwrap().map(|job| job.state)
    }
}

/// Every event that a client may cause, in every state: it leads where the table says, or is refused.
#[test]
fn a_clients_verb_follows_the_table_in_every_state_and_is_refused_outside_it() {
    for state in State::ALL {
        for event in [Event::Cancel, Event::Kill, Event::Requeue, Event::Delete] {
            for world in worlds() {
                let id = world.job_in(state);
                let before = block_on(world.store.get(id)).unwrap();
                let verb = match event {
                    Event::Cancel => world.store.cancel(vec![id]),
                    Event::Kill => world.store.kill(vec![id]),
                    Event::Requeue => world.store.requeue(vec![id]),
                    _ => world.store.delete(vec![id]),
                };
                let changed = block_on(verb).unwrap()[0];
                let after = world.state(id);
                let engine = world.store.describe().engine;
                match changed {
                    Changed::From(from) => {
                        assert_eq!(from, state);
                        assert!(
                            is_allowed(event, Some(state), after),
                            "{engine}: {event} led from {state} to {after:?}"
                        );
                    }
                    Changed::Asked => assert_eq!((event, state, after), (Event::Cancel, State::Running, Some(state))),
                    Changed::Refused(found) => {
                        assert!(!state.allows(event), "{engine}: {event} was refused in state {state}");
                        assert_eq!(found, state);
                        assert_eq!(block_on(world.store.get(id)).unwrap(), before);
                    }
                    Changed::NotFound => panic!("{engine}: {event} did not find the job in state {state}"),
                }
            }
        }
    }
}

/// Every row of the table happens, in every store.
#[test]
fn every_row_of_the_table_happens() {
    for row in TRANSITIONS {
        for from in row.from {
            for world in worlds() {
                let to = happen(&world, row.event, *from);
                let engine = world.store.describe().engine;
                assert!(row.to.contains(&to), "{engine}: {} led from {from:?} to {to:?}", row.event);
            }
        }
    }
}

/// Makes `event` happen to a job in `from`, and answers where the job is afterwards.
fn happen(world: &World, event: Event, from: Option<State>) -> Option<State> {
    let soon = JobOptions::new().expires_in(SECOND);
    let id = match (event, from) {
        (Event::Insert, _) => world.insert(Duration::ZERO, JobOptions::new()),
        (Event::Restore, _) => world.restore_dead(),
        (Event::Expire, Some(State::Scheduled)) => world.insert(SECOND, soon),
        (Event::Expire, _) => world.insert(Duration::ZERO, soon),
        (Event::Lease | Event::Done | Event::Fail | Event::Snooze | Event::Release, _) => {
            world.insert(Duration::ZERO, JobOptions::new())
        }
        (_, Some(state)) => world.job_in(state),
        (_, None) => unreachable!("only an insert and a restore start from nothing"),
    };
    match event {
        Event::Insert | Event::Restore => {}
        Event::Due => {
            world.clock.advance(1_000 * SECOND);
            block_on(world.store.promote(9)).unwrap();
        }
        Event::Lease => {
            world.lease();
        }
        Event::Done => world.finish(&world.lease(), Verdict::Done { result: None, keep: Duration::ZERO }),
        Event::Fail => {
            let job = world.lease();
            world.finish(&job, world.verdict_to(State::Retry).unwrap());
        }
        Event::Snooze => world.finish(&world.lease(), Verdict::Snooze { until: world.store.now() + SECOND }),
        Event::Release => world.finish(&world.lease(), Verdict::Release),
        Event::Recover => {
            world.clock.advance(LEASE);
            block_on(world.store.reap(9)).unwrap();
        }
        Event::Cancel => {
            block_on(world.store.cancel(vec![id])).unwrap();
            if from == Some(State::Running) {
                // It was asked; its member is lost before it could answer.
                world.clock.advance(LEASE);
                block_on(world.store.reap(9)).unwrap();
            }
        }
        Event::Kill => drop(block_on(world.store.kill(vec![id])).unwrap()),
        Event::Requeue => drop(block_on(world.store.requeue(vec![id])).unwrap()),
        Event::Delete => drop(block_on(world.store.delete(vec![id])).unwrap()),
        Event::Expire => {
            world.clock.advance(10 * SECOND);
            block_on(world.store.promote(9)).unwrap();
            let take = Take { queue: "default".to_owned(), max: 1, at_most_once: false };
            block_on(world.store.lease(&world.member, LeasePlan { takes: vec![take], max: 1 })).unwrap();
        }
        Event::Prune => {
            world.clock.advance(2_000 * SECOND);
            let keep = Keep { dead: SECOND, dead_count_max: 100, cancelled: SECOND };
            block_on(world.store.prune(keep, 9)).unwrap();
        }
    }
    world.state(id)
}
