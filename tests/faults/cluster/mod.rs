//! Faults of a Redis Cluster.

mod beside;
mod masters;
mod moves;

pub(crate) use self::masters::{
    frozen_master, frozen_replica, lost_majority, master_killed, master_killed_and_nobody_takes_over,
};
pub(crate) use self::moves::{node_added, node_removed, slots_moved};
use crate::harness::nothing_is_left_on;
use crate::support::cluster::RedisCluster;

/// One node that is sick does not make the others refuse what they have.
const EACH_FOR_ITSELF: [&str; 2] = ["--cluster-require-full-coverage", "no"];

fn nothing_is_left_on_any(cluster: &RedisCluster) {
    for node in (0..cluster.len()).map(|at| cluster.node(at)).filter(|node| node.runs()) {
        nothing_is_left_on(node);
    }
}
