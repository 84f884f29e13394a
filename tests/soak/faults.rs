//! Faults of a cluster, and how often each was tried.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::thread;
use std::time::Duration;

use crate::support::cluster::RedisCluster;
use crate::support::random::Random;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    MasterKilled,
    MasterFrozenBriefly,
    MasterFrozenForSeconds,
    ReplicaKilled,
    ReplicaFrozen,
    ConnectionsKilled,
    ScriptsFlushed,
    SlotsMoved,
    ServerBusy,
}

impl Fault {
    const ALL: [Self; 9] = [
        Self::MasterKilled,
        Self::MasterFrozenBriefly,
        Self::MasterFrozenForSeconds,
        Self::ReplicaKilled,
        Self::ReplicaFrozen,
        Self::ConnectionsKilled,
        Self::ScriptsFlushed,
        Self::SlotsMoved,
        Self::ServerBusy,
    ];

    pub(crate) fn any(random: &mut Random) -> Self {
        Self::ALL[usize::try_from(random.below(Self::ALL.len() as u64)).unwrap()]
    }

    /// Brings a fault about, and heals it.
    pub(crate) fn bring_about(self, cluster: &mut RedisCluster, hot: &[String], random: &mut Random) {
        let nodes = |cluster: &RedisCluster, masters: bool| -> Vec<usize> {
            (0..cluster.len()).filter(|&at| cluster.is_master(at) == masters).collect()
        };
        let mut one_of = |nodes: &[usize]| nodes[usize::try_from(random.below(nodes.len() as u64)).unwrap()];
        match self {
            Self::MasterKilled => {
                let slot = cluster.slot(hot[one_of(&(0..hot.len()).collect::<Vec<_>>())].as_bytes());
                let master = cluster.owner(slot);
                cluster.kill(master);
                cluster.wait_for_fail_over(slot, master);
                cluster.restart(master);
                cluster.wait_until_whole();
            }
            Self::MasterFrozenBriefly | Self::MasterFrozenForSeconds | Self::ReplicaFrozen => {
                let at = one_of(&nodes(cluster, self != Self::ReplicaFrozen));
                cluster.freeze(at);
                let briefly = self == Self::MasterFrozenBriefly;
                thread::sleep(Duration::from_millis(if briefly {
                    50 + random.below(500)
                } else {
                    1_500 + random.below(3_000)
                }));
                cluster.thaw(at);
                cluster.wait_until_whole();
            }
            Self::ReplicaKilled => {
                let at = one_of(&nodes(cluster, false));
                cluster.kill(at);
                thread::sleep(Duration::from_millis(random.below(2_000)));
                cluster.restart(at);
                cluster.wait_until_whole();
            }
            Self::ConnectionsKilled => {
                for at in 0..cluster.len() {
                    cluster.node(at).cli(&["CLIENT", "KILL", "TYPE", "normal"]);
                }
            }
            Self::ScriptsFlushed => {
                for at in nodes(cluster, true) {
                    cluster.node(at).cli(&["SCRIPT", "FLUSH"]);
                }
            }
            Self::SlotsMoved => {
                let masters = nodes(cluster, true);
                for _ in 0..3 {
                    let slot = cluster.slot(hot[one_of(&(0..hot.len()).collect::<Vec<_>>())].as_bytes());
                    let to = one_of(&masters);
                    if to != cluster.owner(slot) {
                        cluster.move_slot(slot, to);
                    }
                }
                cluster.wait_until_whole();
            }
            Self::ServerBusy => {
                let at = one_of(&nodes(cluster, true));
                let seconds = format!("0.{}", 1 + random.below(5));
                cluster.node(at).cli(&["DEBUG", "SLEEP", &seconds]);
                cluster.wait_until_whole();
            }
        }
    }

    /// Whether a replica may take over that lacks the last writes.
    pub(crate) fn can_forget(self) -> bool {
        matches!(self, Self::MasterKilled | Self::MasterFrozenBriefly | Self::MasterFrozenForSeconds | Self::ServerBusy)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::MasterKilled => "a master killed",
            Self::MasterFrozenBriefly => "a master frozen briefly",
            Self::MasterFrozenForSeconds => "a master frozen for seconds",
            Self::ReplicaKilled => "a replica killed",
            Self::ReplicaFrozen => "a replica frozen",
            Self::ConnectionsKilled => "all connections killed",
            Self::ScriptsFlushed => "scripts flushed",
            Self::SlotsMoved => "slots of hot keys moved",
            Self::ServerBusy => "a server busy with something",
        })
    }
}

#[derive(Default)]
pub(crate) struct Faults(BTreeMap<Fault, (u32, Duration)>);

impl Faults {
    pub(crate) fn recovered(&mut self, fault: Fault, after: Duration) {
        let (count, longest) = self.0.entry(fault).or_default();
        *count += 1;
        *longest = after.max(*longest);
    }

    pub(crate) fn summary(&self) -> String {
        let mut text =
            String::from("| fault | times | longest until the store alone answered |\n| --- | --- | --- |\n");
        for (fault, (count, longest)) in &self.0 {
            let _ = writeln!(text, "| {fault} | {count} | {} ms |", longest.as_millis());
        }
        text + "\n"
    }
}
