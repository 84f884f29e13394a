//! Faults of a Redis Cluster.

mod beside;
mod masters;
mod moves;
mod random;
mod settlements;

pub(crate) use self::masters::cases;
pub(crate) use self::moves::{node_added, node_removed, slots_moved};
pub(crate) use self::random::random_faults;
pub(crate) use self::settlements::settled_beside_a_dead_master;
use crate::harness::{Account, Answered, POLICIES, nothing_is_left_on};
use crate::support::cluster::RedisCluster;

/// One node that is sick does not make the others refuse what they have.
const EACH_FOR_ITSELF: [&str; 2] = ["--cluster-require-full-coverage", "no"];

/// Nobody was answered by anybody else than the store, but for what is late on a machine that is
/// busy with other things.
fn assert_unnoticed(account: &Account) {
    for policy in POLICIES {
        let all = account.of(policy).count();
        let noticed = [Answered::Fallback, Answered::Nobody, Answered::Unavailable]
            .map(|by| account.during(policy, by) + account.after(policy, by));
        let noticed: usize = noticed.iter().sum();
        assert!(noticed <= 2 + all / 25, "under `{policy}`, {noticed} of {all} calls were not answered by the store");
    }
}

fn nothing_is_left_on_any(cluster: &RedisCluster) {
    for node in (0..cluster.len()).map(|at| cluster.node(at)).filter(|node| node.runs()) {
        nothing_is_left_on(node);
    }
}
