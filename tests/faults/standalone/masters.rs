//! Masters that are replaced by their replicas. The clients' name leads to the new one, as a
//! fail-over makes it.

use std::time::Duration;

use ratelimit_runtime::{Key, Limit, OnUnavailable, RateLimitError, RateLimiter, Rule};
use tokio::time::sleep;

use crate::harness::{Load, Row, nothing_is_left_on};
use crate::support::eventually;
use crate::support::proxy::Proxy;
use crate::support::redis::RedisServer;

const AT_ONCE: [&str; 2] = ["--repl-diskless-sync-delay", "0"];

/// A master, its replica, and a name that leads to the master.
struct Pair {
    master: RedisServer,
    replica: RedisServer,
    name: Proxy,
}

impl Pair {
    async fn start() -> Self {
        Self::with(RedisServer::start_with).await
    }

    /// With a replica that is started in a way of its own.
    async fn with(replica: impl FnOnce(&[&str]) -> RedisServer) -> Self {
        let master = RedisServer::start_with(&AT_ONCE);
        let port = master.port().to_string();
        let replica = replica(&[&AT_ONCE[..], &["--replicaof", "127.0.0.1", &port]].concat());
        assert!(eventually(|| replica.info("replication", "master_link_status") == "up"));
        let name = Proxy::start(master.port()).await;
        Self { master, replica, name }
    }

    /// The replica becomes the master, with every write, and the master its replica.
    fn fail_over(&self) {
        let port = self.replica.port().to_string();
        assert_eq!(self.master.cli(&["FAILOVER", "TO", "127.0.0.1", &port, "TIMEOUT", "5000"]), "OK");
        assert!(eventually(|| self.replica.info("replication", "role") == "master"));
        self.name.lead_to(self.replica.port());
    }

    /// From now on writes to the master do not reach the replica.
    fn cut(&self) {
        assert_eq!(self.replica.cli(&["REPLICAOF", "NO", "ONE"]), "OK");
    }

    /// The replica, cut off before, is made the master, and the master a replica.
    fn promote(&self) {
        let port = self.replica.port().to_string();
        self.name.lead_to(self.replica.port());
        assert_eq!(self.master.cli(&["REPLICAOF", "127.0.0.1", &port]), "OK");
    }

    fn assert_nothing_is_left(&self) {
        nothing_is_left_on(&self.master);
        nothing_is_left_on(&self.replica);
    }
}

/// The old master says READONLY, and all callers ask for the new one. No window admits more than
/// without.
pub(crate) async fn failed_over() -> Row {
    let pair = Pair::start().await;
    let mut load = Load::on(&pair.name.url()).await;
    load.fault();
    pair.fail_over();
    load.healed();
    load.recover(Duration::from_secs(2)).await;
    let account = load.end().await;
    account.assert_felt();
    pair.assert_nothing_is_left();
    account.row("a replica promoted with all writes, and the old master READONLY")
}

/// A replica that has lost writes admits again as much as it has lost, and no more.
pub(crate) async fn promoted_without_the_last_writes() -> Row {
    let pair = Pair::start().await;
    let mut load = Load::on(&pair.name.url()).await;
    let limiter = one_by_one(&pair.name.url()).await;
    let rule = Rule::new("lost", Limit::per_minute(6));
    assert_eq!(admitted(&limiter, &rule, 3).await, 3);
    assert!(eventually(|| pair.replica.cli(&["ZCARD", "rl1:sw-60s:lost:"]) == "3"));
    load.fault();
    pair.cut();
    assert_eq!(admitted(&limiter, &rule, 2).await, 2, "these are lost");
    load.go_on(Duration::from_millis(300)).await;
    load.store_forgets();
    pair.promote();
    load.healed();
    load.recover(Duration::from_secs(2)).await;
    assert_eq!(admitted(&limiter, &rule, 10).await, 3, "of 6, the replica knew of 3");
    drop(limiter);
    let account = load.end().await;
    account.assert_felt();
    pair.assert_nothing_is_left();
    account.row("a replica promoted that lost the last 300 ms of writes, and the old master READONLY")
}

/// A limiter that is asked by hand, and asks again.
async fn one_by_one(url: &str) -> RateLimiter {
    let builder = RateLimiter::builder().redis(url).timeout(Duration::from_secs(2));
    let limiter = builder.on_unavailable(OnUnavailable::Deny).build().unwrap();
    limiter.ready().await.unwrap();
    limiter
}

/// How many of so many calls are admitted, where only those count that the store decides.
async fn admitted(limiter: &RateLimiter, rule: &Rule, calls: usize) -> usize {
    let (mut decided, mut admitted) = (0, 0);
    while decided < calls {
        match limiter.acquire(rule, &Key::global()).await {
            Err(RateLimitError::Unavailable(_)) => sleep(Duration::from_millis(10)).await,
            answer => {
                decided += 1;
                admitted += usize::from(answer.is_ok());
            }
        }
    }
    admitted
}
