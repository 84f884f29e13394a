//! The clusters that the tests run on do what they are told.

#![allow(clippy::panic, reason = "a test that cannot go on fails")]

use crate::support::cluster::RedisCluster;

#[test]
fn a_cluster_moves_slots_and_fails_over() {
    let mut cluster = RedisCluster::start(3, 1);
    let slot = cluster.slot(b"some key");
    let owner = cluster.owner(slot);
    assert_eq!(cluster.node(owner).cli(&["SET", "some key", "x", "PX", "60000"]), "OK");
    let to = (owner + 1) % 3;
    cluster.move_slot(slot, to);
    assert_eq!(cluster.owner(slot), to);
    assert_eq!(cluster.node(to).cli(&["GET", "some key"]), "x");
    assert!(cluster.node(owner).cli(&["GET", "some key"]).starts_with("-MOVED"));

    let [replica] = cluster.replicas(to)[..] else { panic!("one replica each") };
    assert!(!cluster.is_master(replica));
    cluster.kill(to);
    assert_eq!(cluster.wait_for_fail_over(slot, to), replica);
    cluster.restart(to);
    cluster.wait_until_whole();
    assert!(!cluster.is_master(to));

    let added = cluster.add();
    cluster.move_slot(slot, added);
    assert_eq!(cluster.node(added).cli(&["GET", "some key"]), "x");
    cluster.move_slot(slot, replica);
    cluster.forget(added);
    assert_eq!(cluster.owner(slot), replica);
}
