//! [`Pair`]: a master and its replica, as a fail-over makes one of the other.

use super::clock::ServerClock;
use super::eventually;
use super::proxy::Proxy;
use super::redis::RedisServer;

const AT_ONCE: [&str; 2] = ["--repl-diskless-sync-delay", "0"];

/// A master, its replica, and a name that leads to the master.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) master: RedisServer,
    pub(crate) replica: RedisServer,
    pub(crate) name: Proxy,
    _clock: Option<ServerClock>,
}

impl Pair {
    pub(crate) async fn start() -> Self {
        Self::start_with(None).await
    }

    /// With a replica whose clock is this many milliseconds ahead.
    pub(crate) async fn start_with(ahead: Option<i64>) -> Self {
        let master = RedisServer::start_with(&AT_ONCE);
        let port = master.port().to_string();
        let args = [&AT_ONCE[..], &["--replicaof", "127.0.0.1", &port]].concat();
        let clock = ahead.map(|millis| {
            let clock = ServerClock::new();
            clock.set_ms(millis);
            clock
        });
        let replica = clock.as_ref().map_or_else(
            || RedisServer::start_with(&args),
            |clock| clock.server(&args),
        );
        assert!(eventually(|| replica
            .info("replication", "master_link_status")
            == "up"));
        let name = Proxy::start(master.port()).await;
        Self {
            master,
            replica,
            name,
            _clock: clock,
        }
    }

    /// The replica becomes the master, with every write, and the master its replica.
    pub(crate) fn fail_over(&self) {
        let port = self.replica.port().to_string();
        assert_eq!(
            self.master
                .cli(&["FAILOVER", "TO", "127.0.0.1", &port, "TIMEOUT", "5000"]),
            "OK"
        );
        assert!(eventually(
            || self.replica.info("replication", "role") == "master"
        ));
        self.name.lead_to(self.replica.port());
    }

    /// From now on writes to the master do not reach the replica.
    pub(crate) fn cut(&self) {
        assert_eq!(self.replica.cli(&["REPLICAOF", "NO", "ONE"]), "OK");
    }

    /// The replica, cut off before, is made the master, and the master a replica.
    pub(crate) fn promote(&self) {
        let port = self.replica.port().to_string();
        self.name.lead_to(self.replica.port());
        assert_eq!(self.master.cli(&["REPLICAOF", "127.0.0.1", &port]), "OK");
    }
}
