//! Slots that move from one master to another while they are in use. Nobody should notice.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::{assert_unnoticed, nothing_is_left_on_any};
use crate::harness::{Load, Row};
use crate::support::cluster::RedisCluster;

/// Slots that hold keys, and others.
pub(super) fn slots_in_use(cluster: &RedisCluster) -> Vec<u16> {
    let on = |node: usize| cluster.node(node).cli(&["KEYS", "*"]);
    let keys: Vec<String> = (0..3).flat_map(|node| on(node).lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    let used: HashSet<u16> = keys.iter().map(|key| cluster.slot(key.as_bytes())).collect();
    let hot = keys.iter().filter(|key| key.contains("<shared>")).map(|key| cluster.slot(key.as_bytes()));
    // Those of the hot keys come first: all callers ask for them.
    hot.chain(used.iter().copied()).take(24).chain([0, 8_191, 16_383]).collect()
}

/// MOVED and ASK, with keys in the slots and without.
pub(crate) async fn slots_moved() -> Row {
    let cluster = RedisCluster::start(3, 0);
    let mut load = Load::on(&cluster.url()).await;
    let slots = slots_in_use(&cluster);
    load.fault();
    let start = Instant::now();
    let mut moved = 0;
    while start.elapsed() < Duration::from_secs(4) {
        for &slot in &slots {
            let from = cluster.owner(slot);
            let to = (from + 1) % 3;
            cluster.begin_to_move(slot, from, to);
            // Time for calls to find it half moved.
            load.go_on(Duration::from_millis(3)).await;
            while cluster.move_keys(slot, from, to, 1) > 0 {}
            load.go_on(Duration::from_millis(3)).await;
            cluster.end_move(slot, from, to);
            moved += 1;
        }
    }
    load.healed();
    load.recover(Duration::from_millis(500)).await;
    let account = load.end().await;
    assert_unnoticed(&account);
    nothing_is_left_on_any(&cluster);
    account.row(&format!("cluster: {moved} times a slot moved to another master (MOVED, ASK)"))
}

/// A master without slots is given some that are in use.
pub(crate) async fn node_added() -> Row {
    let mut cluster = RedisCluster::start(3, 0);
    let mut load = Load::on(&cluster.url()).await;
    load.fault();
    let added = cluster.add();
    for slot in slots_in_use(&cluster) {
        if cluster.owner(slot) != added {
            cluster.move_slot(slot, added);
        }
    }
    load.go_on(Duration::from_secs(1)).await;
    assert!(!cluster.node(added).info("commandstats", "cmdstat_evalsha").is_empty(), "it has been asked");
    load.healed();
    load.recover(Duration::from_millis(500)).await;
    let account = load.end().await;
    assert_unnoticed(&account);
    nothing_is_left_on_any(&cluster);
    account.row("cluster: a node added, and slots in use moved to it")
}

/// A master gives its slots away, and leaves.
pub(crate) async fn node_removed() -> Row {
    let mut cluster = RedisCluster::start(3, 0);
    let leaving = cluster.add();
    for slot in 0..80 {
        cluster.move_slot(slot, leaving);
    }
    let mut load = Load::on(&cluster.url()).await;
    load.fault();
    let hot = slots_in_use(&cluster);
    for slot in hot {
        if cluster.owner(slot) != leaving {
            cluster.move_slot(slot, leaving);
        }
    }
    let slots = cluster.slots_of(leaving);
    for (turn, &slot) in slots.iter().enumerate() {
        cluster.move_slot(slot, turn % 3);
    }
    // A node that takes a slot for the leaving one's says CLUSTERDOWN once it has forgotten that
    // one.
    cluster.wait_until_whole();
    cluster.forget(leaving);
    load.go_on(Duration::from_secs(1)).await;
    load.healed();
    load.recover(Duration::from_millis(500)).await;
    cluster.kill(leaving);
    load.go_on(Duration::from_secs(1)).await;
    let account = load.end().await;
    assert_unnoticed(&account);
    nothing_is_left_on_any(&cluster);
    account.row(&format!("cluster: a node with {} slots removed", slots.len()))
}
