//! Where a server may be: behind sentinels, in a cluster, behind replicas.

use std::time::{Duration, Instant};

use windlass::StoreError;
use windlass::blocking::block_on;
use windlass::store::{Finished, Inserted, Severity, Store, Verdict, Vitals};
use windlass_testbed::{Cluster, RedisOptions, RedisServer, SentinelSet};

use crate::{insert, join, lease, new_job, open, plan, until};

fn done() -> Verdict {
    Verdict::Done { result: None, keep: Duration::ZERO }
}

#[test]
fn sentinels_lead_to_the_master_and_to_the_next_one_when_it_fails() {
    let mut set = SentinelSet::start(3, &RedisOptions::default()).unwrap();
    let store = open(&format!("{}?durability=replicated:1", set.url()));
    let member = join(&store, "a");
    for _ in 0..20 {
        insert(&store);
    }
    let held = lease(&store, &member, 5);

    let old = set.kill_master().unwrap();
    set.until_master_is_not(old).unwrap();
    let began = Instant::now();
    until(|| block_on(store.beat(&member, Vitals::default())).ok());
    let verdicts: Vec<_> = held.iter().map(|job| (job.token, done())).collect();
    let answers = until(|| block_on(store.finish(&member, verdicts.clone())).ok());

    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    // What was accepted with a replica's word is there: leases and outcomes are not waited for, and may be younger.
    let left = block_on(store.counts()).unwrap();
    assert_eq!(left.ready + left.running + left.totals.done, 20, "{answers:?} {left:?}");
}

#[test]
fn a_cluster_holds_a_namespace_in_one_slot_and_is_followed_when_that_moves() {
    let cluster = Cluster::start(&RedisOptions::default()).unwrap();
    for tag in ["{a}", "{b}", "{c}", "{d}"] {
        let store = open(&format!("{}?namespace={tag}", cluster.url()));
        let member = join(&store, "a");
        let id = insert(&store);
        let slot = cluster.slot_of(tag).unwrap();
        let home = cluster.owner_of(slot).unwrap();

        cluster.move_slot(slot, (home + 1) % 3).unwrap();

        let job = until(|| block_on(store.lease(&member, plan(1))).ok()?.pop());
        assert_eq!(job.token.job(), id);
        let answer = until(|| block_on(store.finish(&member, vec![(job.token, done())])).ok());
        assert_eq!(answer, [Finished::Landed]);
        let findings = block_on(store.check()).unwrap();
        assert!(findings.iter().all(|finding| finding.severity < Severity::Problem), "{findings:?}");
    }
}

#[test]
fn a_push_that_no_replica_has_is_not_accepted() {
    let server = RedisServer::start().unwrap();
    let store = open(&format!("{}?durability=replicated:1", server.url()));
    let job = new_job(&store);

    let error = block_on(store.insert(vec![job.clone()])).unwrap_err();

    assert!(matches!(&error, StoreError::Unavailable { detail, .. } if detail.contains("0 of 1")), "{error}");
    // It is there all the same, and a repeated push does not put it there twice.
    assert_eq!(block_on(open(&server.url()).insert(vec![job.clone()])).unwrap(), [Inserted::Duplicate(job.id)]);
    let findings = block_on(store.check()).unwrap();
    assert!(findings.iter().any(|finding| finding.severity == Severity::Problem), "{findings:?}");
}
