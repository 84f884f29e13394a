//! Masters and replicas that die, or are frozen.

use super::beside::Nodes;
use crate::harness::{Case, Fault};

/// Within this many milliseconds the nodes elect another master, and the store finds it.
const FAIL_OVER: u64 = 6_000;

pub(super) fn cases() -> impl Iterator<Item = Case> {
    let fault = Fault::<Nodes>::new;
    let rows = [
        // Perhaps without the last writes.
        fault(
            "cluster::master_killed",
            "cluster: a master killed, and its replica takes over",
            1,
        )
        .forgets()
        .begins(|nodes| nodes.cluster.kill(0))
        .within(FAIL_OVER)
        .then(|nodes, _| nodes.assert_sick(&[0])),
        // Its slots are answered by policy until it is back; all others go on.
        fault(
            "cluster::master_killed_without_a_replica",
            "cluster: a master without a replica killed for 3 s, and started again empty",
            0,
        )
        .forgets()
        .begins(|nodes| nodes.cluster.kill(0))
        .ends(3_000, |nodes| nodes.cluster.restart(0))
        .within(FAIL_OVER)
        .then(|nodes, _| nodes.assert_sick(&[0])),
        // No caller talks to replicas.
        fault(
            "cluster::frozen_replica",
            "cluster: a replica frozen (SIGSTOP) for 3 s, scripts flushed",
            1,
        )
        .unnoticed()
        .begins(|nodes| {
            nodes.cluster.freeze(3);
            (0..3).for_each(|node| drop(nodes.cluster.node(node).cli(&["SCRIPT", "FLUSH"])));
        })
        .ends(3_000, |nodes| nodes.cluster.thaw(3))
        .within(500)
        .then(|nodes, _| nodes.assert_sick(&[])),
        // It is found to be slow, a replica takes over, and it returns as a replica.
        fault(
            "cluster::frozen_master",
            "cluster: a master frozen (SIGSTOP), its replica takes over, and it returns",
            1,
        )
        .forgets()
        .begins(|nodes| nodes.cluster.freeze(0))
        .within(FAIL_OVER)
        .afterwards(|nodes| nodes.cluster.thaw(0))
        .then(|nodes, _| nodes.assert_sick(&[0])),
        // Two of three masters cannot be reached: the third one refuses as well.
        fault(
            "cluster::lost_majority",
            "cluster: two of three masters frozen for 4 s (CLUSTERDOWN)",
            0,
        )
        .begins(|nodes| {
            for node in [0, 1] {
                nodes.cluster.freeze(node);
            }
        })
        .ends(4_000, |nodes| {
            for node in [0, 1] {
                nodes.cluster.thaw(node);
            }
        })
        .within(FAIL_OVER)
        .then(|nodes, _| nodes.assert_sick(&[0, 1, 2])),
    ];
    rows.into_iter().map(|row| row.case(Fault::play))
}
