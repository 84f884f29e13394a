//! Faults of a cluster at random, for as long as `RATELIMIT_SOAK_MINUTES` says.

use std::thread;
use std::time::{Duration, Instant};

use super::moves::slots_in_use;
use super::{EACH_FOR_ITSELF, nothing_is_left_on_any};
use crate::harness::{LIMIT, Load, Row, soak};
use crate::support::cluster::RedisCluster;
use crate::support::random::{Random, seed};
use crate::support::worker::Worker;
use crate::support::{eventually, unique};

/// What a cluster may take to serve all slots again after a fault, and callers to see that.
const RECOVERY: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, Copy)]
enum Fault {
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

const ALL: [Fault; 9] = [
    Fault::MasterKilled,
    Fault::MasterFrozenBriefly,
    Fault::MasterFrozenForSeconds,
    Fault::ReplicaKilled,
    Fault::ReplicaFrozen,
    Fault::ConnectionsKilled,
    Fault::ScriptsFlushed,
    Fault::SlotsMoved,
    Fault::ServerBusy,
];

/// The nodes of a fault: all masters; one of them, with one of its slots; and a replica.
struct Nodes {
    masters: Vec<usize>,
    master: usize,
    replica: usize,
    slot: u16,
}

impl Nodes {
    fn of(cluster: &RedisCluster, random: &mut Random) -> Self {
        let nodes = |masters: bool| {
            (0..cluster.len())
                .filter(|&at| cluster.is_master(at) == masters)
                .collect::<Vec<usize>>()
        };
        let (masters, replicas) = (nodes(true), nodes(false));
        let (master, replica) = (random.of(&masters), random.of(&replicas));
        Self {
            slot: cluster.slots_of(master)[0],
            masters,
            master,
            replica,
        }
    }
}

impl Fault {
    /// Whether a replica may take over that lacks the last writes.
    fn can_forget(self) -> bool {
        matches!(
            self,
            Self::MasterKilled
                | Self::MasterFrozenBriefly
                | Self::MasterFrozenForSeconds
                | Self::ServerBusy
        )
    }

    /// Brings a fault about, and heals it.
    fn bring_about(self, cluster: &mut RedisCluster, random: &mut Random, nodes: Nodes) {
        let Nodes {
            masters,
            master,
            replica,
            slot,
        } = nodes;
        match self {
            Self::MasterKilled => {
                cluster.kill(master);
                cluster.wait_for_fail_over(slot, master);
                cluster.restart(master);
            }
            Self::MasterFrozenBriefly => frozen(cluster, master, 50 + random.below(500)),
            Self::MasterFrozenForSeconds => {
                cluster.freeze(master);
                // Beside a master that is back, its replica would take over at a moment that has no
                // mark.
                cluster.wait_for_fail_over(slot, master);
                thread::sleep(Duration::from_millis(500 + random.below(2_000)));
                cluster.thaw(master);
            }
            Self::ReplicaFrozen => frozen(cluster, replica, 1_500 + random.below(3_000)),
            Self::ReplicaKilled => {
                cluster.kill(replica);
                thread::sleep(Duration::from_millis(random.below(2_000)));
                cluster.restart(replica);
            }
            Self::ConnectionsKilled => {
                for at in 0..cluster.len() {
                    cluster.node(at).cli(&["CLIENT", "KILL", "TYPE", "normal"]);
                }
            }
            Self::ScriptsFlushed => {
                for at in masters {
                    cluster.node(at).cli(&["SCRIPT", "FLUSH"]);
                }
            }
            Self::SlotsMoved => {
                for slot in slots_in_use(cluster).into_iter().take(3) {
                    cluster.move_slot(slot, random.of(&masters));
                }
            }
            Self::ServerBusy => {
                let seconds = format!("0.{}", 1 + random.below(5));
                cluster.node(master).cli(&["DEBUG", "SLEEP", &seconds]);
            }
        }
        cluster.wait_until_whole();
    }
}

/// Processes with calls in flight that never end, two each at most. All but the first are killed
/// now and then, and others take over their permits.
struct Holders {
    url: String,
    key: String,
    workers: Vec<Worker>,
    /// Of the first, in bytes.
    memory: u64,
}

impl Holders {
    const MAX: i64 = 5;
    /// What is more than this has grown.
    const MEMORY: u64 = 16 << 20;

    fn start(cluster: &RedisCluster) -> Self {
        let (url, key) = (cluster.url(), unique("held"));
        let mut holders = Self {
            url,
            key,
            workers: Vec::new(),
            memory: 0,
        };
        (0..4).for_each(|_| holders.begin());
        assert!(
            eventually(|| holders.in_flight(cluster) == Self::MAX),
            "all permits are held"
        );
        holders.memory = memory_of(&holders.workers[0]);
        holders
    }

    fn begin(&mut self) {
        self.workers.push(Worker::start(&[
            "hold",
            &self.url,
            &self.key,
            "2",
            &Self::MAX.to_string(),
        ]));
    }

    fn kill_one(&mut self, random: &mut Random) {
        let at = 1 + random.below(self.workers.len() as u64 - 1);
        drop(self.workers.swap_remove(usize::try_from(at).unwrap()));
        self.begin();
    }

    fn in_flight(&self, cluster: &RedisCluster) -> i64 {
        let node = cluster.node(cluster.owner_of_key(self.key.as_bytes()));
        let live = node.number(&["ZCOUNT", &self.key, &node.now_us().to_string(), "+inf"]);
        assert!(live <= Self::MAX, "{live} of {} are in flight", Self::MAX);
        live
    }

    /// Neither those that were killed nor a fail-over have cost a permit, or memory.
    fn end(self, cluster: &RedisCluster) -> String {
        assert!(
            eventually(|| self.in_flight(cluster) == Self::MAX),
            "{} in flight",
            self.in_flight(cluster)
        );
        let grown = memory_of(&self.workers[0]).saturating_sub(self.memory);
        let servers = (0..cluster.len()).map(|at| {
            cluster
                .node(at)
                .info("memory", "used_memory")
                .parse()
                .unwrap()
        });
        let largest: u64 = servers.max().unwrap_or_default();
        assert!(
            grown < Self::MEMORY && largest < Self::MEMORY,
            "{grown} bytes more, {largest} on a server"
        );
        format!(
            "at most {0} of {0} in flight; a process grew by {1} kB, a server has {2} kB",
            Self::MAX,
            grown >> 10,
            largest >> 10
        )
    }
}

/// What is resident.
fn memory_of(worker: &Worker) -> u64 {
    let pages = std::fs::read_to_string(format!("/proc/{}/statm", worker.id())).unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4_096
}

fn frozen(cluster: &RedisCluster, node: usize, millis: u64) {
    cluster.freeze(node);
    thread::sleep(Duration::from_millis(millis));
    cluster.thaw(node);
}

/// Whatever comes after whatever: what is promised for each fault holds, and the store alone
/// answers before the next one.
pub(crate) async fn random_faults() -> Row {
    let time = soak();
    let mut random = Random::new(seed());
    let mut cluster = RedisCluster::start_with(3, 1, &EACH_FOR_ITSELF);
    let mut holders = Holders::start(&cluster);
    let mut load = Load::on(&cluster.url()).await;
    let (start, mut faults) = (Instant::now(), 0);
    load.fault();
    while start.elapsed() < time {
        let fault = random.of(&ALL);
        holders.kill_one(&mut random);
        let mut bringing = random.fork();
        let choosing = tokio::task::spawn_blocking(move || {
            (Nodes::of(&cluster, &mut bringing), cluster, bringing)
        });
        let (chosen, mut sick, mut bringing) = choosing.await.unwrap();
        // As late as possible: what is admitted between this mark and the fault counts beside what
        // the replica admits that takes over.
        if fault.can_forget() {
            load.store_forgets();
        }
        let healing = tokio::task::spawn_blocking(move || {
            fault.bring_about(&mut sick, &mut bringing, chosen);
            sick
        });
        cluster = healing.await.unwrap();
        load.healed();
        load.recover(RECOVERY).await;
        holders.in_flight(&cluster);
        println!("{:>5} s  {fault:?}", start.elapsed().as_secs());
        faults += 1;
        // A calm while, in which limits hold as if nothing had ever been wrong.
        load.go_on(LIMIT.window() + Duration::from_millis(random.below(1_000)))
            .await;
    }
    let account = load.end().await;
    println!("{}", holders.end(&cluster));
    nothing_is_left_on_any(&cluster);
    account.row(&format!(
        "cluster: {faults} faults at random, one after the other"
    ))
}
