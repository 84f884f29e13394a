//! Slots that move from one master to another while they are in use. No caller should notice.

use std::collections::HashSet;
use std::thread;
use std::time::Duration;

use super::beside::Nodes;
use crate::harness::{Case, Fault};
use crate::support::cluster::RedisCluster;

/// Slots that hold keys, and others.
pub(super) fn slots_in_use(cluster: &RedisCluster) -> Vec<u16> {
    let on = |node: usize| cluster.node(node).cli(&["KEYS", "*"]);
    let keys: Vec<String> = (0..3)
        .flat_map(|node| on(node).lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let used: HashSet<u16> = keys
        .iter()
        .map(|key| cluster.slot(key.as_bytes()))
        .collect();
    let hot = keys
        .iter()
        .filter(|key| key.contains("<shared>"))
        .map(|key| cluster.slot(key.as_bytes()));
    // Those of the hot keys come first: all callers ask for them.
    hot.chain(used.iter().copied())
        .take(24)
        .chain([0, 8_191, 16_383])
        .collect()
}

/// One slot goes to the next master, in three steps with some time for calls to find it half moved.
fn move_one(nodes: &mut Nodes) {
    let slot = nodes.slots[nodes.moved % nodes.slots.len()];
    nodes.moved += 1;
    let cluster = &nodes.cluster;
    let from = cluster.owner(slot);
    let to = (from + 1) % 3;
    cluster.begin_to_move(slot, from, to);
    thread::sleep(Duration::from_millis(3));
    while cluster.move_keys(slot, from, to, 1) > 0 {}
    thread::sleep(Duration::from_millis(3));
    cluster.end_move(slot, from, to);
}

/// Gives a master those slots that are in use.
fn move_all(nodes: &Nodes, to: usize) {
    for slot in slots_in_use(&nodes.cluster) {
        if nodes.cluster.owner(slot) != to {
            nodes.cluster.move_slot(slot, to);
        }
    }
}

pub(super) fn cases() -> impl Iterator<Item = Case> {
    let fault = |name, says| Fault::<Nodes>::new(name, says, 0).unnoticed().within(500);
    let rows = [
        // With keys in the slots and without.
        fault(
            "cluster::slots_moved",
            "cluster: slots moved to another master (MOVED, ASK), one after the other for 4 s",
        )
        .begins(|nodes| nodes.slots = slots_in_use(&nodes.cluster))
        .again(0, move_one)
        .ends(4_000, |nodes| {
            // Each once at least; on an idle machine a hundred and more moves.
            assert!(
                nodes.moved > nodes.slots.len(),
                "{} slots moved",
                nodes.moved
            );
        }),
        // A master without slots is given some.
        fault(
            "cluster::node_added",
            "cluster: a node added, and slots in use moved to it",
        )
        .begins(|nodes| {
            let added = nodes.cluster.add();
            move_all(nodes, added);
        })
        .ends(1_000, |nodes| {
            let asked = nodes
                .cluster
                .node(3)
                .info("commandstats", "cmdstat_evalsha");
            assert!(!asked.is_empty(), "the new node has been asked");
        }),
        // A master gives its slots away, and leaves.
        fault(
            "cluster::node_removed",
            "cluster: a node added, slots in use moved to it, and the node removed",
        )
        .begins(|nodes| {
            let leaving = nodes.cluster.add();
            move_all(nodes, leaving);
            for (turn, slot) in nodes.cluster.slots_of(leaving).into_iter().enumerate() {
                nodes.cluster.move_slot(slot, turn % 3);
            }
            // A node that takes a slot for the leaving one's says CLUSTERDOWN once it has
            // forgotten that one.
            nodes.cluster.wait_until_whole();
            nodes.cluster.forget(leaving);
        })
        .ends(1_000, |nodes| nodes.cluster.kill(3)),
    ];
    rows.into_iter().map(|row| row.case(Fault::play))
}
