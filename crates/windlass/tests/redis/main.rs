//! What only a server across a network can do: hold what others wrote, lose connections, restart, move, fill up. Not for
//! the other stores, which have none of it.
//!
//! Every test starts servers of its own, with the program of the system's package.

mod elements;
mod faults;
mod places;
mod serving;

use std::time::Duration;

use windlass::blocking::block_on;
use windlass::entropy::Entropy;
use windlass::job::{JobId, JobOptions, LeasedJob, NewJob, Payload};
use windlass::store::redis::{RedisOptions, RedisStore};
use windlass::store::{LeasePlan, MemberId, MemberInfo, Store, Take};

/// Nothing here takes longer, however slow the machine.
const PATIENCE: Duration = Duration::from_secs(30);

fn open(url: &str) -> RedisStore {
    RedisStore::open(url, RedisOptions::default()).unwrap()
}

fn new_job(store: &dyn Store) -> NewJob {
    let (now, entropy) = (store.now(), Entropy::from_system());
    NewJob::new(JobId::new(now, &entropy), "kind", Payload::from_bytes("[1]"), now, 0, JobOptions::new()).unwrap()
}

fn insert(store: &dyn Store) -> JobId {
    let job = new_job(store);
    let id = job.id;
    block_on(store.insert(vec![job])).unwrap();
    id
}

fn join(store: &dyn Store, name: &str) -> MemberId {
    let id = MemberId::new(name, 1, Entropy::from_system().next_u64());
    let info = MemberInfo {
        id: id.clone(),
        host: name.to_owned(),
        pid: 1,
        queues: vec!["default".to_owned()],
        weights: Vec::new(),
        concurrency: 10,
        version: "0".to_owned(),
    };
    block_on(store.join(info, Duration::from_secs(60))).unwrap();
    id
}

fn plan(max: usize) -> LeasePlan {
    LeasePlan { takes: vec![Take { queue: "default".to_owned(), max, at_most_once: false }], max }
}

fn lease(store: &dyn Store, member: &MemberId, max: usize) -> Vec<LeasedJob> {
    block_on(store.lease(member, plan(max))).unwrap()
}

/// Tries until it works. What is tried must be safe to repeat.
fn until<T>(mut tried: impl FnMut() -> Option<T>) -> T {
    let began = std::time::Instant::now();
    loop {
        if let Some(answer) = tried() {
            return answer;
        }
        assert!(began.elapsed() < PATIENCE, "it never worked");
        std::thread::sleep(Duration::from_millis(5));
    }
}
