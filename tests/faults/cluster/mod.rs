//! Faults of a Redis Cluster.

mod beside;
mod masters;
mod moves;
mod random;
mod settlements;

pub(crate) use self::random::random_faults;
pub(crate) use self::settlements::settled_beside_a_dead_master;
use crate::harness::{Case, nothing_is_left_on};
use crate::support::cluster::RedisCluster;

pub(crate) fn cases() -> impl Iterator<Item = Case> {
    masters::cases().chain(moves::cases())
}

/// One node that is sick does not make the others refuse what they have.
const EACH_FOR_ITSELF: [&str; 2] = ["--cluster-require-full-coverage", "no"];

fn nothing_is_left_on_any(cluster: &RedisCluster) {
    for node in (0..cluster.len())
        .map(|at| cluster.node(at))
        .filter(|node| node.runs())
    {
        nothing_is_left_on(node);
    }
}
