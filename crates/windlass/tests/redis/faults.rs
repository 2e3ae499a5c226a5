//! What goes wrong between a process and its server, and inside the server.

use std::time::{Duration, Instant};

use windlass::StoreError;
use windlass::blocking::block_on;
use windlass::job::{NewJob, Payload};
use windlass::store::{Finished, Inserted, Store, Verdict, Vitals};
use windlass_testbed::{Direction, Fault, Persistence, Proxy, RedisOptions, RedisServer};

use crate::{insert, join, lease, new_job, open, plan, until};

fn done() -> Verdict {
    Verdict::Done { result: None, keep: Duration::ZERO }
}

#[test]
fn a_lease_whose_answer_was_lost_is_handed_back_by_the_next_beat() {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::to(server.port()).unwrap();
    let store = open(&server.url_of(proxy.port()));
    let member = join(&store, "a");
    assert_eq!(lease(&store, &member, 5), [], "the script is loaded now");
    let id = insert(&store);

    proxy.set(Fault::Cut { direction: Direction::Replies, after_bytes: 10 }).unwrap();
    assert!(block_on(store.lease(&member, plan(5))).unwrap_err().is_transient());
    let counts = until(|| block_on(store.counts()).ok());
    assert_eq!((counts.ready, counts.running), (0, 1), "the server has done it");
    until(|| block_on(store.beat(&member, Vitals::default())).ok());

    assert_eq!(block_on(store.counts()).unwrap().ready, 1);
    let job = lease(&store, &member, 5).pop().unwrap();
    assert_eq!((job.token.job(), job.attempt, job.token.run(), job.recoveries), (id, 1, 1, 0));
    assert_eq!(block_on(store.finish(&member, vec![(job.token, done())])).unwrap(), [Finished::Landed]);
}

#[test]
fn a_push_whose_answer_was_lost_may_be_repeated() {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::to(server.port()).unwrap();
    let store = open(&server.url_of(proxy.port()));
    insert(&store);
    let job = new_job(&store);

    proxy.set(Fault::Cut { direction: Direction::Replies, after_bytes: 1 }).unwrap();
    assert!(block_on(store.insert(vec![job.clone()])).unwrap_err().is_transient());
    let again = until(|| block_on(store.insert(vec![job.clone()])).ok());

    assert_eq!(again, [Inserted::Duplicate(job.id)]);
    assert_eq!(block_on(store.counts()).unwrap().ready, 2);
}

#[test]
fn forgotten_scripts_and_closed_connections_cost_nothing_but_a_moment() {
    let server = RedisServer::start().unwrap();
    let store = open(&server.url());
    let member = join(&store, "a");
    for _ in 0..20 {
        let id = until(|| {
            let job = new_job(&store);
            block_on(store.insert(vec![job.clone()])).ok().map(|_| job.id)
        });
        server.cli(&["SCRIPT", "FLUSH"]).unwrap();
        let job = until(|| block_on(store.lease(&member, plan(1))).ok().and_then(|mut jobs| jobs.pop()));
        assert_eq!(job.token.job(), id);
        server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).unwrap();
        let answer = until(|| block_on(store.finish(&member, vec![(job.token, done())])).ok());
        assert_eq!(answer, [Finished::Landed]);
    }
    assert_eq!(block_on(store.counts()).unwrap().totals.done, 20);
}

#[test]
fn a_server_that_was_killed_is_found_again_with_every_accepted_job() {
    let mut server = RedisServer::start_with(RedisOptions::default().persistence(Persistence::Always)).unwrap();
    let store = open(&server.url());
    let member = join(&store, "a");
    for _ in 0..50 {
        insert(&store);
    }
    let held = lease(&store, &member, 10);

    server.kill9();
    assert!(block_on(store.insert(vec![new_job(&store)])).unwrap_err().is_transient());
    server.restart().unwrap();
    let began = Instant::now();
    let counts = until(|| block_on(store.counts()).ok());

    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!((counts.ready, counts.running), (40, 10));
    let verdicts = held.iter().map(|job| (job.token, done())).collect();
    assert!(block_on(store.finish(&member, verdicts)).unwrap().iter().all(|answer| *answer == Finished::Landed));
}

#[test]
fn a_server_that_does_not_answer_costs_a_limited_time_and_no_job() {
    let mut server = RedisServer::start().unwrap();
    let store = open(&server.url());
    let member = join(&store, "a");
    insert(&store);

    server.stop_signal().unwrap();
    let began = Instant::now();
    assert!(block_on(store.beat(&member, Vitals::default())).unwrap_err().is_transient());
    assert!(block_on(store.lease(&member, plan(1))).unwrap_err().is_transient());
    assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
    server.cont_signal().unwrap();

    // What the stopped server did with the lease when it went on is handed back, if it did anything.
    until(|| block_on(store.beat(&member, Vitals::default())).ok());
    let job = until(|| {
        block_on(store.beat(&member, Vitals::default())).ok()?;
        block_on(store.lease(&member, plan(1))).ok()?.pop()
    });
    assert_eq!(job.attempt, 1);
}

#[test]
fn a_full_server_refuses_pushes_and_still_lets_jobs_be_done() {
    let server = RedisServer::start_with(RedisOptions::default().memory_max_bytes(4 << 20)).unwrap();
    let store = open(&server.url());
    let member = join(&store, "a");
    let large = |store: &dyn Store| {
        let payload = Payload::from_bytes(format!("[\"{}\"]", "x".repeat(20_000)));
        NewJob { payload, ..new_job(store) }
    };
    let mut accepted = 0;
    let refusal = loop {
        match block_on(store.insert(vec![large(&store)])) {
            Ok(_) => accepted += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refusal, StoreError::Full { .. }), "{refusal}");

    let mut finished = 0;
    while finished < accepted {
        let jobs = lease(&store, &member, 7);
        assert!(!jobs.is_empty(), "{finished} of {accepted}");
        let verdicts = jobs.iter().map(|job| (job.token, done())).collect();
        finished += block_on(store.finish(&member, verdicts)).unwrap().len();
    }

    assert_eq!(block_on(store.counts()).unwrap().totals.done, accepted as u64);
    block_on(store.insert(vec![large(&store)])).unwrap();
}

#[test]
fn who_may_not_come_in_is_told_what_to_do_and_no_secret_is_shown() {
    let server = RedisServer::start_with(RedisOptions::default().password("opensesame")).unwrap();
    let url = format!("redis://:wrongword@127.0.0.1:{}", server.port());

    let error = windlass::store::open(&url).unwrap_err();

    assert!(matches!(&error, StoreError::Refused { hint, .. } if hint.contains("password")), "{error}");
    assert!(!error.to_string().contains("wrongword"), "{error}");
    let store = open(&server.url());
    insert(&store);
    assert!(!store.describe().url.contains("opensesame"), "{}", store.describe().url);
    assert!(!format!("{store:?}").contains("opensesame"));
}

#[test]
fn a_store_that_is_not_there_says_so_in_a_limited_time() {
    let port = { RedisServer::start().unwrap().port() };
    let began = Instant::now();

    let error = windlass::store::open(&format!("redis://127.0.0.1:{port}")).unwrap_err();

    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    assert!(began.elapsed() < Duration::from_secs(5));
}
