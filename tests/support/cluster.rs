//! [`RedisCluster`]: a Redis Cluster for a test, on loopback.

use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use ratelimit_runtime::RedisStore;

use super::redis::{How, RedisServer, patient};
use super::unique;

const SLOTS: usize = 16_384;

/// How long a cluster may take for whatever it is told to do.
const PATIENCE: Duration = Duration::from_secs(20);

/// After this long without an answer, nodes take one of theirs for dead. A fail-over takes about
/// twice as long.
pub(crate) const NODE_TIMEOUT: Duration = Duration::from_secs(1);

/// Masters that share the slots evenly, and their replicas. Nodes are named by their place: first
/// the masters, then the replicas of the first one, and so on; those that are added come last. All
/// of them are killed on drop, and when the test process ends in any other way.
#[derive(Debug)]
pub(crate) struct RedisCluster {
    nodes: Vec<RedisServer>,
    /// What the nodes know of each other is kept there, over a restart.
    folder: Folder,
    args: Vec<String>,
}

/// A shell removes it once its standard input has ended: when this is dropped, or the test process
/// ends. The nodes, which write there, are killed in the same way.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    remover: Child,
}

impl Folder {
    fn create() -> Self {
        let path = std::env::temp_dir().join(unique("ratelimit-cluster"));
        fs::create_dir(&path).expect("a folder for the cluster");
        let remover = Command::new("sh")
            .args(["-c", r#"read -r _; sleep 1; rm -rf -- "$1""#, "sh"])
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell can be started");
        Self { path, remover }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(self.remover.stdin.take());
    }
}

impl RedisCluster {
    pub(crate) fn start(masters: usize, replicas_per_master: usize) -> Self {
        Self::start_with(masters, replicas_per_master, &[])
    }

    /// A cluster whose nodes have further arguments, such as
    /// `&["--cluster-require-full-coverage", "no"]`.
    pub(crate) fn start_with(masters: usize, replicas_per_master: usize, args: &[&str]) -> Self {
        let folder = Folder::create();
        let mut cluster = Self {
            nodes: Vec::new(),
            folder,
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
        };
        let count = masters * (1 + replicas_per_master);
        cluster.nodes = thread::scope(|scope| {
            let starting: Vec<_> = (0..count)
                .map(|_| scope.spawn(|| cluster.start_node()))
                .collect();
            starting
                .into_iter()
                .map(|node| node.join().expect("a node starts"))
                .collect()
        });
        for master in 0..masters {
            let slots = SLOTS * master / masters..SLOTS * (master + 1) / masters;
            let mut command = vec!["CLUSTER".to_owned(), "ADDSLOTS".to_owned()];
            command.extend(slots.map(|slot| slot.to_string()));
            cluster.ok(master, &command);
        }
        for at in 0..count {
            cluster.ok(at, &["CLUSTER", "SET-CONFIG-EPOCH", &(at + 1).to_string()]);
        }
        for at in 0..count {
            for other in &cluster.nodes {
                cluster.ok(
                    at,
                    &["CLUSTER", "MEET", "127.0.0.1", &other.port().to_string()],
                );
            }
        }
        cluster.wait_until_all_are_known();
        for at in masters..count {
            let master = (at - masters) / replicas_per_master;
            cluster.ok(at, &["CLUSTER", "REPLICATE", &cluster.id(master)]);
        }
        cluster.wait_until_whole();
        cluster
    }

    /// `redis+cluster://127.0.0.1:<port>,127.0.0.1:<port>,…`, with all nodes that there are.
    pub(crate) fn url(&self) -> String {
        let seeds: Vec<String> = self
            .nodes
            .iter()
            .map(|node| format!("127.0.0.1:{}", node.port()))
            .collect();
        format!("redis+cluster://{}", seeds.join(","))
    }

    pub(crate) fn store(&self) -> RedisStore {
        patient(&self.url())
    }

    pub(crate) fn node(&self, at: usize) -> &RedisServer {
        &self.nodes[at]
    }

    /// How many nodes there are, dead ones included.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Kills a node at once (SIGKILL). [`restart`](Self::restart) brings it back, without its data.
    pub(crate) fn kill(&mut self, at: usize) {
        self.nodes[at].stop();
    }

    /// Starts a killed node again, under the name that the others know it by.
    pub(crate) fn restart(&mut self, at: usize) {
        self.nodes[at].restart();
    }

    pub(crate) fn freeze(&self, at: usize) {
        self.nodes[at].freeze();
    }

    pub(crate) fn thaw(&self, at: usize) {
        self.nodes[at].thaw();
    }

    /// The slot of a key.
    pub(crate) fn slot(&self, key: &[u8]) -> u16 {
        let node = self
            .nodes
            .iter()
            .find(|node| node.runs())
            .expect("a node that runs");
        let slot = node.cli(&[b"CLUSTER".as_slice(), b"KEYSLOT", key]);
        slot.parse().expect("a slot")
    }

    /// The master that serves a slot, as node `asked` sees it.
    pub(crate) fn owner_as_seen_by(&self, asked: usize, slot: u16) -> Option<usize> {
        self.view(asked)
            .into_iter()
            .find(|node| node.is_master() && node.serves(slot))
            .map(|node| node.at)
    }

    /// The master that serves a slot, as it says itself.
    pub(crate) fn owner(&self, slot: u16) -> usize {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut running = (0..self.len()).filter(|&at| self.nodes[at].runs());
            if let Some(owner) = running.find(|&at| self.owner_as_seen_by(at, slot) == Some(at)) {
                return owner;
            }
            // Nodes that have not heard of the last move may dispute it for a moment.
            assert!(Instant::now() < deadline, "a node serves slot {slot}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// The slots that a master serves, as it says itself.
    pub(crate) fn slots_of(&self, at: usize) -> Vec<u16> {
        let own = self.view(at).into_iter().find(|node| node.at == at);
        own.into_iter()
            .flat_map(|node| node.slots)
            .flat_map(|(first, last)| first..=last)
            .collect()
    }

    pub(crate) fn owner_of_key(&self, key: &[u8]) -> usize {
        self.owner(self.slot(key))
    }

    /// Whether a node takes itself for a master.
    pub(crate) fn is_master(&self, at: usize) -> bool {
        self.nodes[at].info("replication", "role") == "master"
    }

    /// Puts another node beside the masters, without slots.
    pub(crate) fn add(&mut self) -> usize {
        let at = self.nodes.len();
        self.nodes.push(self.start_node());
        for other in 0..at {
            if self.nodes[other].runs() {
                let port = self.nodes[other].port().to_string();
                self.ok(at, &["CLUSTER", "MEET", "127.0.0.1", &port]);
            }
        }
        self.wait_until_all_are_known();
        self.wait_until_whole();
        at
    }

    /// Takes a node, which has no slots any more, out of the cluster; it goes on running by itself.
    pub(crate) fn forget(&self, at: usize) {
        let id = self.id(at);
        for other in (0..self.len()).filter(|&other| other != at && self.nodes[other].runs()) {
            self.ok(other, &["CLUSTER", "FORGET", &id]);
        }
        self.ok(at, &["CLUSTER", "RESET", "HARD"]);
    }

    /// Moves a slot with all its keys to another master.
    pub(crate) fn move_slot(&self, slot: u16, to: usize) {
        let from = self.owner(slot);
        if from == to {
            return;
        }
        self.begin_to_move(slot, from, to);
        while self.move_keys(slot, from, to, 100) > 0 {}
        self.end_move(slot, from, to);
    }

    /// From now on, `from` answers for the keys that it has, and says `ASK` for all others.
    pub(crate) fn begin_to_move(&self, slot: u16, from: usize, to: usize) {
        let slot = slot.to_string();
        self.ok(
            to,
            &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &self.id(from)],
        );
        self.ok(
            from,
            &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &self.id(to)],
        );
    }

    /// Moves up to so many keys of a slot; says how many there were.
    pub(crate) fn move_keys(&self, slot: u16, from: usize, to: usize, most: usize) -> usize {
        let keys = self.nodes[from].cli(&[
            "CLUSTER",
            "GETKEYSINSLOT",
            &slot.to_string(),
            &most.to_string(),
        ]);
        let keys: Vec<&str> = keys.lines().filter(|key| !key.is_empty()).collect();
        if !keys.is_empty() {
            let port = self.nodes[to].port().to_string();
            let mut command = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
            command.extend(&keys);
            let said = self.nodes[from].cli(&command);
            // Keys may expire on the way.
            assert!(said == "OK" || said == "NOKEY", "MIGRATE: {said}");
        }
        keys.len()
    }

    /// Makes `to` the master of the slot, and waits until all masters agree.
    pub(crate) fn end_move(&self, slot: u16, from: usize, to: usize) {
        // A node that has not heard of the last epoch of another would take one that is not above
        // it. What `from` sent before would take the slot away again, and so would `from` where it
        // takes a new epoch because a third node has the same: each then holds the other for the
        // slot's master, for good, and the keys are gone.
        let running = (0..self.len()).filter(|&at| self.nodes[at].runs());
        let epochs = running.map(|at| self.cluster_info(at, "cluster_my_epoch"));
        self.wait_until_epoch_is_known(to, epochs.max().expect("a node that runs"));
        let others = (0..self.len()).filter(|&at| at != to && at != from && self.nodes[at].runs());
        let told: Vec<usize> = [to, from].into_iter().chain(others).collect();
        let (text, id) = (slot.to_string(), self.id(to));
        let deadline = Instant::now() + PATIENCE;
        loop {
            for &at in &told {
                // Replicas refuse, and so does a master that has heard already and has no slots
                // left.
                let said = self.nodes[at].cli(&["CLUSTER", "SETSLOT", &text, "NODE", &id]);
                assert!(said == "OK" || said.contains("only with masters"), "{said}");
            }
            let seen: Vec<_> = told
                .iter()
                .map(|&at| self.owner_as_seen_by(at, slot))
                .collect();
            if seen.iter().all(|seen| *seen == Some(to)) {
                break;
            }
            assert!(
                Instant::now() < deadline,
                "{to} serves slot {slot}: {told:?} see {seen:?}"
            );
            thread::sleep(Duration::from_millis(5));
        }
        // A node that has been told of the owner and not heard of its epoch may still be told
        // otherwise.
        for at in told {
            while self.epoch_as_seen_by(at, to) < self.epoch_as_seen_by(to, to) {
                assert!(
                    Instant::now() < deadline,
                    "{at} hears that {to} serves slot {slot}"
                );
                thread::sleep(Duration::from_millis(5));
            }
        }
    }

    /// The epoch of a node, in which it serves its slots.
    fn epoch_as_seen_by(&self, asked: usize, node: usize) -> u64 {
        let nodes = self.view(asked).into_iter();
        nodes
            .filter(|seen| seen.at == node)
            .map(|seen| seen.epoch)
            .max()
            .unwrap_or(0)
    }

    fn wait_until_epoch_is_known(&self, at: usize, epoch: u64) {
        let deadline = Instant::now() + PATIENCE;
        while self.cluster_info(at, "cluster_current_epoch") < epoch {
            assert!(
                Instant::now() < deadline,
                "node {at} hears of epoch {epoch}"
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn cluster_info(&self, at: usize, field: &str) -> u64 {
        let info = self.nodes[at].cli(&["CLUSTER", "INFO"]);
        let value = info
            .lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        value
            .and_then(|value| value.trim().parse().ok())
            .expect("a number of CLUSTER INFO")
    }

    /// Waits until every node that runs serves, every replica has its master's data, and all agree
    /// on who serves which slot.
    pub(crate) fn wait_until_whole(&self) {
        let first = (0..self.len())
            .find(|&at| self.nodes[at].runs())
            .expect("a node that runs");
        self.wait("agrees with the others", |node| {
            let at = self
                .nodes
                .iter()
                .position(|other| other.port() == node.port());
            at.is_some_and(|at| self.owners_as_seen_by(at) == self.owners_as_seen_by(first))
        });
        self.wait("serves, with its replicas", |node| {
            let state = node.cli(&["CLUSTER", "INFO"]);
            let link = node.info("replication", "master_link_status");
            state.contains("cluster_state:ok") && matches!(link.as_str(), "up" | "")
        });
    }

    /// Waits until another node than `lost` is seen to serve the slot by all others that run.
    pub(crate) fn wait_for_fail_over(&self, slot: u16, lost: usize) -> usize {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let others = (0..self.len()).filter(|&at| at != lost && self.nodes[at].runs());
            let seen: Vec<_> = others.map(|at| self.owner_as_seen_by(at, slot)).collect();
            if let Some(Some(owner)) = seen.first()
                && *owner != lost
                && seen.iter().all(|seen| *seen == Some(*owner))
            {
                return *owner;
            }
            assert!(Instant::now() < deadline, "a replica takes over: {seen:?}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn wait_until_all_are_known(&self) {
        let count = self.nodes.iter().filter(|node| node.runs()).count();
        self.wait("knows all others", |node| {
            let known = node.cli(&["CLUSTER", "NODES"]);
            let met = known
                .lines()
                .filter(|line| !line.contains("handshake") && !line.contains("noaddr"));
            met.count() >= count && !known.contains("handshake")
        });
    }

    /// Waits until something holds of every node that runs.
    fn wait(&self, what: &str, holds: impl Fn(&RedisServer) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        for node in self.nodes.iter().filter(|node| node.runs()) {
            while !holds(node) {
                let said = || {
                    [
                        node.cli(&["CLUSTER", "INFO"]),
                        node.cli(&["CLUSTER", "NODES"]),
                    ]
                    .join("\n")
                };
                assert!(
                    Instant::now() < deadline,
                    "node {} never {what}:\n{}",
                    node.port(),
                    said()
                );
                thread::sleep(Duration::from_millis(10));
            }
        }
    }

    fn owners_as_seen_by(&self, asked: usize) -> Vec<(usize, Vec<(u16, u16)>)> {
        let serving = self
            .view(asked)
            .into_iter()
            .filter(|node| !node.slots.is_empty());
        let mut serving: Vec<_> = serving.map(|node| (node.at, node.slots)).collect();
        serving.sort();
        serving
    }

    fn ok(&self, at: usize, command: &[impl AsRef<[u8]>]) {
        let said = self.nodes[at].cli(command);
        let shown = || {
            command
                .iter()
                .take(4)
                .map(|part| String::from_utf8_lossy(part.as_ref()))
                .collect::<Vec<_>>()
        };
        assert_eq!(said, "OK", "{at}: {:?}", shown());
    }

    /// The name that a node has given itself.
    fn id(&self, at: usize) -> String {
        self.nodes[at].cli(&["CLUSTER", "MYID"])
    }

    /// All nodes, as one of them sees them.
    fn view(&self, asked: usize) -> Vec<Seen> {
        let known = self.nodes[asked].cli(&["CLUSTER", "NODES"]);
        known.lines().filter_map(|line| self.seen(line)).collect()
    }

    fn seen(&self, line: &str) -> Option<Seen> {
        let mut fields = line.split(' ');
        let (_id, address, flags, master) = (
            fields.next()?,
            fields.next()?,
            fields.next()?,
            fields.next()?,
        );
        let port: u16 = address
            .split('@')
            .next()?
            .rsplit_once(':')?
            .1
            .parse()
            .ok()?;
        let at = self.nodes.iter().position(|node| node.port() == port)?;
        let epoch = fields.nth(2)?.parse().ok()?;
        let slots = fields
            .skip(1)
            .filter(|field| !field.starts_with('['))
            .filter_map(|range| {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                Some((first.parse().ok()?, last.parse().ok()?))
            });
        Some(Seen {
            at,
            flags: flags.to_owned(),
            master: master.to_owned(),
            epoch,
            slots: slots.collect(),
        })
    }

    fn start_node(&self) -> RedisServer {
        start(|port| How {
            args: self.args_of(port),
            ..How::default()
        })
    }

    fn args_of(&self, port: u16) -> Vec<String> {
        let file = self.folder.path.join(format!("{port}.conf"));
        let timeout = NODE_TIMEOUT.as_millis().to_string();
        let own = [
            ("--cluster-enabled", "yes"),
            ("--cluster-config-file", path(&file)),
            ("--cluster-node-timeout", &timeout),
            ("--cluster-replica-validity-factor", "0"),
            // Replicas stay where they are.
            ("--cluster-migration-barrier", "100"),
            ("--repl-diskless-sync", "yes"),
            ("--repl-diskless-sync-delay", "0"),
        ];
        let own = own
            .into_iter()
            .flat_map(|(name, value)| [name.to_owned(), value.to_owned()]);
        own.chain(self.args.iter().cloned()).collect()
    }
}

/// A node by itself, which serves no slots.
pub(crate) fn lone_node(args: &[&str]) -> RedisServer {
    let args = [&["--cluster-enabled", "yes"], args]
        .concat()
        .into_iter()
        .map(str::to_owned)
        .collect();
    start(|_| How {
        args: Vec::clone(&args),
        ..How::default()
    })
}

/// Makes a node that is alone the master of all slots.
pub(crate) fn serve_all_slots(node: &RedisServer) {
    let slots: Vec<String> = (0..SLOTS).map(|slot| slot.to_string()).collect();
    let command: Vec<&str> = ["CLUSTER", "ADDSLOTS"]
        .into_iter()
        .chain(slots.iter().map(String::as_str))
        .collect();
    assert_eq!(node.cli(&command), "OK");
}

/// A node on a port for which there is one for the other nodes as well.
fn start(how: impl Fn(u16) -> How) -> RedisServer {
    let attempt = || {
        let port = free_ports();
        RedisServer::start_on(port, &how(port))
    };
    let started = (0..20).find_map(|_| attempt());
    started.expect("free ports for a node")
}

/// Three masters for all tests of the process. Use unique keys, and leave the cluster as it was.
pub(crate) fn shared() -> &'static RedisCluster {
    static SHARED: OnceLock<RedisCluster> = OnceLock::new();
    SHARED.get_or_init(|| RedisCluster::start(3, 0))
}

/// A node as another one sees it.
struct Seen {
    at: usize,
    flags: String,
    /// `-` for a master.
    master: String,
    epoch: u64,
    slots: Vec<(u16, u16)>,
}

impl Seen {
    fn is_master(&self) -> bool {
        self.flags.split(',').any(|flag| flag == "master")
    }

    fn serves(&self, slot: u16) -> bool {
        self.slots
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&slot))
    }
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a path that is text")
}

/// A port that is free, and so is the one 10,000 above, where the nodes talk to each other. Below
/// those that the system gives to outgoing connections. None comes twice: what is left of a cluster
/// goes on talking to the ports of its dead nodes, and would take a new node there for its own.
pub(crate) fn free_ports() -> u16 {
    const COUNT: u64 = 11_000;
    static FIRST: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0) % COUNT);
    static TAKEN: AtomicU64 = AtomicU64::new(0);
    let free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    loop {
        let taken = TAKEN.fetch_add(1, Ordering::Relaxed);
        let port = 11_000 + u16::try_from((*FIRST + taken) % COUNT).expect("a small number");
        if free(port) && free(port + 10_000) {
            return port;
        }
    }
}
