//! What happens when a step fails that hardly ever does: answers lost, commits refused, a schema half made.
//!
//! Failpoints belong to the whole process, so these tests take turns.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::blocking::block_on;
use windlass::failpoint::{self, Action};
use windlass::migrate::migrate;
use windlass::server::Server;
use windlass::state::State;
use windlass::store::Store;
use windlass::store::memory::MemoryStore;
use windlass::store::sqlite::{SqliteOptions, SqliteStore};
use windlass::{Client, Handlers, Inspector, Job, JobOptions, ServerConfig};

static TURN: Mutex<()> = Mutex::new(());

fn my_turn() -> MutexGuard<'static, ()> {
    let turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    failpoint::clear();
    turn
}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "noop", keep_done = "1h")]
struct Noop;

async fn noop(_: Noop) {}

fn open(dir: &tempfile::TempDir) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(dir.path().join("jobs.db"), SqliteOptions::default()).unwrap())
}

/// Runs one job on a server whose steps fail as `point` says, and answers how it ended.
fn run_one_job_with(point: &str, from_hit: u64) -> (State, u64) {
    let dir = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = open(&dir);
        let client = Client::new(Arc::clone(&store));
        let config = ServerConfig { poll_interval: Duration::from_millis(20), ..ServerConfig::default() };
        let server = Server::new(Arc::clone(&store), Handlers::new().on(noop), config).unwrap().start().await.unwrap();
        failpoint::set(point, Action::Error, from_hit, false);
        let id = client.enqueue(&Noop).await.unwrap();
        let inspector = Inspector::new(Arc::clone(&store));
        let ended = async {
            while !inspector.job(id).await.unwrap().state.is_final() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), ended).await.unwrap();
        assert!(server.stop().await.is_clean);
        (inspector.job(id).await.unwrap().state, inspector.counts().await.unwrap().totals.done)
    })
}

#[test]
fn an_ack_that_could_not_be_sent_is_sent_again() {
    let _turn = my_turn();

    assert_eq!(run_one_job_with("acker.send", 1), (State::Done, 1));
}

#[test]
fn an_ack_whose_answer_was_lost_counts_once() {
    let _turn = my_turn();

    assert_eq!(run_one_job_with("acker.reply.lost", 1), (State::Done, 1));
}

#[test]
fn an_enqueue_whose_commit_failed_has_stored_nothing_and_may_be_repeated() {
    let _turn = my_turn();
    let dir = tempfile::tempdir().unwrap();
    let client = Client::new(open(&dir)).blocking();
    let job = Client::describe(
        "0123456789abcdef01234567".parse().unwrap(),
        &Noop,
        windlass::Timestamp::EPOCH,
        JobOptions::new(),
    );
    let job = job.unwrap();

    failpoint::set("sqlite.commit.before", Action::Error, 1, false);
    let error = client.insert(vec![job.clone()]).unwrap_err();

    assert!(matches!(&error, windlass::Error::Store(store) if store.is_transient()), "{error}");
    let inspector = Inspector::new(open(&dir));
    assert_eq!(block_on(inspector.counts()).unwrap().ready, 0);
    client.insert(vec![job.clone()]).unwrap();
    client.insert(vec![job]).unwrap();
    assert_eq!(block_on(inspector.counts()).unwrap().ready, 1);
}

#[test]
fn a_schema_that_could_not_be_finished_is_begun_again_at_the_next_opening() {
    let _turn = my_turn();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jobs.db");

    failpoint::set("sqlite.migrate.step", Action::Error, 1, false);
    assert!(SqliteStore::open(&path, SqliteOptions::default()).is_err());

    let store = SqliteStore::open(&path, SqliteOptions::default()).unwrap();
    assert_eq!(block_on(store.counts()).unwrap().ready, 0);
}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "gated", keep_done = "1h")]
struct Gated;

async fn gated(_: Gated, gate: windlass::State<tokio::sync::Semaphore>) {
    gate.acquire().await.unwrap().forget();
}

/// The disk was full for longer than the lease. When there was room again, the server's own reaper was faster than its
/// heartbeat: it reaped its own process, the acks that were waiting were refused, and every job ran again. Now a process
/// that could not beat judges nobody before it has beaten again.
#[test]
fn a_process_that_could_not_beat_for_longer_than_its_lease_does_not_reap_itself() {
    let _turn = my_turn();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store: Arc<dyn Store> = Arc::new(windlass::store::memory::MemoryStore::default());
        let (client, inspector) = (Client::new(Arc::clone(&store)), Inspector::new(Arc::clone(&store)));
        let gate = Arc::new(tokio::sync::Semaphore::new(0));
        let handlers = Handlers::new().on(gated).shared_state(Arc::clone(&gate));
        let lease = Duration::from_secs(1);
        let config = ServerConfig { lease, ..ServerConfig::default() };
        let server = Server::new(Arc::clone(&store), handlers, config).unwrap().start().await.unwrap();
        let id = client.enqueue(&Gated).await.unwrap();
        while server.stats().running == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }

        // The lease runs out in real time, which no event tells.
        failpoint::set("memory.beat", Action::Error, 1, true);
        tokio::time::sleep(lease * 2).await;
        failpoint::clear();
        gate.add_permits(1);

        let ended = async {
            while !inspector.job(id).await.unwrap().state.is_final() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), ended).await.unwrap();
        let job = inspector.job(id).await.unwrap();
        assert_eq!((job.state, job.run, job.recoveries), (State::Done, 1, 0));
        assert!(server.stop().await.is_clean);
    });
}

/// Redb's way: fail the first step, then the second, and so on, until a whole life passes without a failure.
#[test]
fn whichever_transaction_fails_the_job_still_ends_once() {
    let _turn = my_turn();
    for hit in 1..=8 {
        failpoint::clear();
        assert_eq!(run_one_job_with("sqlite.commit.before", hit + 1), (State::Done, 1), "the commit {hit} failed");
    }
}

/// It stops between the restore there and the deletion here: both stores have the jobs, and the second run ends it.
#[test]
fn an_interrupted_migration_goes_on_where_it_was_and_loses_nothing() {
    let _turn = my_turn();
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (Arc::new(MemoryStore::default()) as Arc<dyn Store>, open(&dir));
    let ids = block_on(Client::new(Arc::clone(&from)).enqueue_many([Noop, Noop, Noop])).unwrap();
    failpoint::set("migrate.delete.before", Action::Error, 1, false);

    block_on(migrate(&from, &to, |_| {})).unwrap_err();
    let both = [&from, &to].map(|store| block_on(store.counts()).unwrap().ready);
    let migrated = block_on(migrate(&from, &to, |_| {})).unwrap();

    assert_eq!(both, [3, 3]);
    assert_eq!((migrated.total(), migrated.already_there), (3, 3));
    assert!(ids.iter().all(|id| block_on(to.get(*id)).unwrap().is_some()));
    assert_eq!(block_on(from.counts()).unwrap().ready, 0);
}
