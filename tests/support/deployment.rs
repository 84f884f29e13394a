//! [`Deployment`]: servers of a kind, of which a test asks what it may ask of any.

use std::fmt;

use ratelimit_runtime::RedisStore;

use super::cluster::RedisCluster;
use super::redis::{RedisServer, patient};
use super::sentinel::Sentinels;
use super::{eventually, unique};

/// Servers of a test's own. Its keys are those of one master, the *server*; a cluster has another
/// one besides.
#[derive(Debug)]
pub(crate) enum Deployment {
    OneServer(RedisServer),
    /// A master, its replica and a sentinel.
    Sentinel(Sentinels),
    /// Two masters.
    Cluster(RedisCluster),
}

/// One node that is sick does not make the other refuse what it has.
const EACH_FOR_ITSELF: [&str; 2] = ["--cluster-require-full-coverage", "no"];

impl Deployment {
    pub(crate) fn one_server() -> Self {
        Self::OneServer(RedisServer::start())
    }

    pub(crate) fn sentinel() -> Self {
        Self::Sentinel(Sentinels::start(1))
    }

    /// Without replicas.
    pub(crate) fn cluster() -> Self {
        Self::Cluster(RedisCluster::start_with(2, 0, &EACH_FOR_ITSELF))
    }

    /// With a replica of each master.
    pub(crate) fn replicated_cluster() -> Self {
        Self::Cluster(RedisCluster::start_with(2, 1, &EACH_FOR_ITSELF))
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Self::OneServer(server) => server.url(),
            Self::Sentinel(all) => all.url(),
            Self::Cluster(cluster) => cluster.url(),
        }
    }

    pub(crate) fn store(&self) -> RedisStore {
        patient(&self.url())
    }

    /// The nodes, or the master and its replica.
    fn servers(&self) -> Vec<&RedisServer> {
        match self {
            Self::OneServer(server) => vec![server],
            Self::Sentinel(all) => all.servers.iter().collect(),
            Self::Cluster(cluster) => (0..cluster.len()).map(|at| cluster.node(at)).collect(),
        }
    }

    /// The first server, which has all keys of the test until a fail-over, and its replica.
    fn pair(&self) -> [&RedisServer; 2] {
        match self {
            Self::OneServer(_) => panic!("one server has no replica"),
            Self::Sentinel(all) => all.servers.each_ref(),
            Self::Cluster(cluster) => [cluster.node(0), cluster.node(2)],
        }
    }

    /// The first server.
    pub(crate) fn server(&self) -> &RedisServer {
        self.servers()[0]
    }

    /// This master.
    pub(crate) fn server_on(&self, master: usize) -> &RedisServer {
        self.servers()[master]
    }

    /// The replica of the first server.
    pub(crate) fn replica(&self) -> &RedisServer {
        self.pair()[1]
    }

    /// A key of the first server.
    pub(crate) fn key(&self) -> String {
        self.key_on(0)
    }

    /// A key of this master.
    pub(crate) fn key_on(&self, master: usize) -> String {
        loop {
            let key = unique("key");
            if self.is_on(master, &key) {
                return key;
            }
        }
    }

    /// A number that this rule of a limiter with this prefix, by a sliding window of an hour, keeps
    /// on this master.
    pub(crate) fn number_on(&self, master: usize, prefix: &str, rule: &str) -> u64 {
        let is_there = |number: &u64| self.has(master, prefix, rule, *number);
        (0..10_000).find(is_there).unwrap()
    }

    /// Whether this master keeps what such a rule knows of this number.
    pub(crate) fn has(&self, master: usize, prefix: &str, rule: &str, number: u64) -> bool {
        self.is_on(master, &format!("{prefix}:rl1:sw-3600s:{rule}:<{number}>"))
    }

    /// Whether this master has the slot of this key.
    pub(crate) fn is_on(&self, master: usize, key: &str) -> bool {
        match self {
            Self::Cluster(cluster) => {
                let slot = usize::from(cluster.slot(key.as_bytes()));
                slot * 2 / 16_384 == master
            }
            _ => master == 0,
        }
    }

    /// How many scripts the servers that run have run.
    pub(crate) fn scripts_run(&self) -> u64 {
        let running = self.servers().into_iter().filter(|server| server.runs());
        running.map(scripts_run).sum()
    }

    /// How many scripts this master has run.
    pub(crate) fn scripts_run_on(&self, master: usize) -> u64 {
        scripts_run(self.servers()[master])
    }

    /// Waits until the replica has all that the first server has.
    pub(crate) fn replicated(&self) {
        let [master, replica] = self.pair();
        let is_equal = || {
            let sent = master.info("replication", "master_repl_offset");
            sent == replica.info("replication", "slave_repl_offset")
        };
        assert!(eventually(is_equal), "the replica follows");
    }

    /// The replica becomes the master, without a write lost, and the first server its replica.
    pub(crate) fn fail_over(&self) {
        self.replicated();
        match self {
            Self::Sentinel(all) => all.fail_over(),
            _ => assert_eq!(self.replica().cli(&["CLUSTER", "FAILOVER"]), "OK"),
        }
        // A server that is told of its role ends its connections.
        let is = |server: &RedisServer, role| {
            let said = server.connect().send(&["ROLE"]);
            said.is_ok_and(|said| said.starts_with(role))
        };
        let [old, new] = self.pair();
        let is_over = || is(new, "master") && is(old, "slave");
        assert!(eventually(is_over), "{self}: a fail-over takes place");
    }

    /// The first server dies, and the replica becomes the master.
    pub(crate) fn lose_master(&mut self) {
        self.replicated();
        match self {
            Self::OneServer(_) => panic!("one server has no replica"),
            Self::Sentinel(all) => {
                all.servers[0].stop();
                all.until_master_is(1);
            }
            Self::Cluster(cluster) => {
                cluster.kill(0);
                let said = cluster.node(2).cli(&["CLUSTER", "FAILOVER", "TAKEOVER"]);
                assert_eq!(said, "OK");
                assert_eq!(cluster.wait_for_fail_over(0, 0), 2);
            }
        }
    }
}

impl fmt::Display for Deployment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OneServer(_) => "one server",
            Self::Sentinel(_) => "Sentinel",
            Self::Cluster(_) => "Cluster",
        })
    }
}

fn scripts_run(server: &RedisServer) -> u64 {
    let stats = server.info("commandstats", "cmdstat_evalsha");
    let mut stats = stats.split(',');
    let calls = stats.find_map(|stat| stat.strip_prefix("calls="));
    calls.map_or(0, |calls| calls.parse().unwrap())
}
