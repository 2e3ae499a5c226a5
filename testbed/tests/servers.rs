//! Servers that know of each other: a Sentinel set and a cluster.

use windlass_testbed::cluster::redirect_of;
use windlass_testbed::{Cluster, RedisOptions, RedisServer, SentinelSet, wait};

/// Writes a key, and waits until the replica has it.
fn write_to_both(master: &RedisServer) {
    let mut link = master.link().unwrap();
    link.call(&["SET", "a", "1"]).unwrap();
    // It waits for what this connection wrote.
    assert_eq!(link.call(&["WAIT", "1", "10000"]).unwrap().integer(), Some(1));
}

#[test]
fn a_sentinel_set_has_a_master_that_a_replica_follows() {
    let mut set = SentinelSet::start(1, &RedisOptions::default()).unwrap();

    write_to_both(set.master().unwrap());

    assert_eq!(set.replica().unwrap().cli(&["GET", "a"]).unwrap().text(), "1");
    assert!(set.replica().unwrap().cli(&["SET", "a", "2"]).is_err_and(|error| format!("{error}").contains("READONLY")));
    assert!(set.url().starts_with("redis+sentinel://127.0.0.1:"));
}

#[test]
fn a_failover_makes_the_replica_the_master_with_what_it_had() {
    let mut set = SentinelSet::start(3, &RedisOptions::default()).unwrap();
    let old = set.master_port().unwrap();
    write_to_both(set.master().unwrap());

    set.failover().unwrap();

    assert_ne!(set.master_port().unwrap(), old);
    assert_eq!(set.master().unwrap().cli(&["GET", "a"]).unwrap().text(), "1");
}

#[test]
fn a_killed_master_is_replaced_and_comes_back_as_a_replica() {
    let mut set = SentinelSet::start(1, &RedisOptions::default()).unwrap();

    let old = set.kill_master().unwrap();
    set.restart_dead().unwrap();

    assert_ne!(set.master_port().unwrap(), old);
    let replica = set.replica().unwrap();
    // The sentinels close its connections when they change its role.
    let is_replica = || replica.info_text("role").is_ok_and(|role| role.as_deref() == Some("slave"));
    // The sentinels look at it for a while before they believe that it takes itself for a master.
    wait::until_true("the old master to follow", wait::LIMIT, is_replica).unwrap();
}

#[test]
fn a_cluster_sends_clients_to_the_node_that_has_the_slot() {
    let cluster = Cluster::start(&RedisOptions::default()).unwrap();
    let slot = cluster.slot_of("{jobs}:queue").unwrap();
    let owner = cluster.owner_of(slot).unwrap();
    let other = (owner + 1) % 3;

    cluster.nodes()[owner].cli(&["SET", "{jobs}:queue", "1"]).unwrap();
    let reply = cluster.nodes()[other].link().unwrap().ask(&["GET", "{jobs}:queue"]).unwrap();

    assert_eq!(redirect_of(&reply), Some((slot, cluster.ports()[owner])));
}

#[test]
fn a_slot_is_moved_with_its_keys() {
    let cluster = Cluster::start(&RedisOptions::default()).unwrap();
    let slot = cluster.slot_of("{jobs}").unwrap();
    let owner = cluster.owner_of(slot).unwrap();
    let target = (owner + 1) % 3;
    for number in 0..250 {
        cluster.nodes()[owner].cli(&["SET", &format!("{{jobs}}:{number}"), "x"]).unwrap();
    }

    cluster.move_slot(slot, target).unwrap();

    assert_eq!(cluster.nodes()[target].cli(&["GET", "{jobs}:249"]).unwrap().text(), "x");
    assert!(cluster.nodes()[owner].cli(&["GET", "{jobs}:249"]).is_err());
}
