//! [`Sentinels`]: a master, a replica, and sentinels that watch over them.

use super::eventually;
use super::redis::RedisServer;

/// A Redis master with one replica and some sentinels, each a process of the test's own.
#[derive(Debug)]
pub(crate) struct Sentinels {
    /// The first is the master to begin with. Which one is now, [`master`](Self::master) says.
    pub(crate) servers: [RedisServer; 2],
    pub(crate) sentinels: Vec<RedisServer>,
}

/// What the sentinels call the master.
pub(crate) const NAME: &str = "main";

/// The user that sentinels may log in as, apart from all other clients.
pub(crate) const WATCHER: [&str; 7] = ["--user", "watcher", "on", ">w", "~*", "&*", "+@all"];

/// Makes sentinels log in as [`WATCHER`].
pub(crate) fn watcher_login() -> String {
    format!("sentinel auth-user {NAME} watcher\nsentinel auth-pass {NAME} w")
}

impl Sentinels {
    /// So many sentinels. A master that does not answer for half a second is replaced, which takes
    /// a second or two more.
    pub(crate) fn start(sentinels: usize) -> Self {
        Self::start_with(sentinels, &[], "")
    }

    /// Servers with further arguments, and sentinels with further lines in their configuration.
    pub(crate) fn start_with(sentinels: usize, args: &[&str], lines: &str) -> Self {
        let start = |more: &[&str]| {
            let args = [
                args,
                &[
                    "--repl-diskless-sync-delay",
                    "0",
                    "--repl-ping-replica-period",
                    "1",
                ],
                more,
            ]
            .concat();
            RedisServer::start_with(&args)
        };
        let master = start(&[]);
        let port = master.port();
        let replica = start(&["--replicaof", "127.0.0.1", &port.to_string()]);
        assert!(
            eventually(|| replica.info("replication", "master_link_status") == "up"),
            "the replica follows"
        );
        let quorum = sentinels / 2 + 1;
        let config = format!(
            "sentinel monitor {NAME} 127.0.0.1 {port} {quorum}\nsentinel down-after-milliseconds \
             {NAME} 500\n\
             sentinel failover-timeout {NAME} 1500\n{lines}\n"
        );
        let sentinels: Vec<_> = (0..sentinels)
            .map(|_| RedisServer::start_from(&config, &["--sentinel"]))
            .collect();
        let all = Self {
            servers: [master, replica],
            sentinels,
        };
        for sentinel in &all.sentinels {
            // They usually tell each other every other second. Redis 6.2 has no such command, and
            // takes that long.
            sentinel.cli(&[
                "SENTINEL",
                "DEBUG",
                "publish-period",
                "100",
                "info-period",
                "200",
            ]);
        }
        for sentinel in &all.sentinels {
            let field = |name| field(&sentinel.cli(&["SENTINEL", "MASTER", NAME]), name);
            let others = (all.sentinels.len() - 1).to_string();
            let ready = || field("num-slaves") == "1" && field("num-other-sentinels") == others;
            assert!(eventually(ready), "the sentinels know each other");
        }
        all
    }

    /// `redis+sentinel://127.0.0.1:<port>,…/main`
    pub(crate) fn url(&self) -> String {
        format!("redis+sentinel://{}/{NAME}", self.hosts())
    }

    /// `127.0.0.1:<port>,…`
    pub(crate) fn hosts(&self) -> String {
        let hosts: Vec<_> = self
            .sentinels
            .iter()
            .map(|sentinel| format!("127.0.0.1:{}", sentinel.port()))
            .collect();
        hosts.join(",")
    }

    /// The server that this sentinel takes for the master: 0 or 1.
    pub(crate) fn master_by(&self, sentinel: usize) -> usize {
        let said = self.sentinels[sentinel].cli(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME]);
        let port = said.lines().last().unwrap_or_default();
        usize::from(self.servers[0].port().to_string() != port)
    }

    /// From now on the sentinels cannot reach the first server, and make the other one the master.
    /// The servers must have been started with [`WATCHER`], and the sentinels with
    /// [`watcher_login`].
    pub(crate) fn cut_off_the_first(&self) {
        self.servers[0].cli(&["ACL", "SETUSER", "watcher", "-@all"]);
        // They would agree on it in a few seconds, and sooner or later.
        self.fail_over();
    }

    /// Makes the second server the master. A sentinel refuses that while it knows too little of the
    /// second server, and gives it up where that takes long.
    pub(crate) fn fail_over(&self) {
        let is_begun = || {
            self.sentinels[0].cli(&["SENTINEL", "FAILOVER", NAME]);
            self.master_by(0) == 1
        };
        assert!(eventually(is_begun), "a sentinel fails over");
        self.until_master_is(1);
    }

    /// Waits until a sentinel says that the master is this one, and it says so too.
    pub(crate) fn until_master_is(&self, server: usize) {
        let says_so = || {
            self.master_by(self.sentinels.len() - 1) == server
                && self.servers[server].cli(&["ROLE"]).starts_with("master")
        };
        assert!(eventually(says_so), "a fail-over takes place");
    }
}

/// What comes after `name` in a list of names and values, one per line.
fn field(list: &str, name: &str) -> String {
    list.lines()
        .skip_while(|line| *line != name)
        .nth(1)
        .unwrap_or_default()
        .to_owned()
}
