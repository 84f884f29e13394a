//! Masters that become replicas under callers who are only refused: a refusal writes nothing, so no
//! server says `READONLY`.

use ratelimit_runtime::__private::BuiltInStore as _;

use super::*;
use crate::support::eventually;
use crate::support::proxy::Proxy;
use crate::support::redis::RedisServer;

/// In which a server in use is asked, and some time for slow machines.
const NOTICED: Duration = Duration::from_secs(3);

/// A master, a replica of it, and a name that leads to the master.
struct Pair {
    master: RedisServer,
    replica: RedisServer,
    name: Proxy,
}

impl Pair {
    async fn start() -> Self {
        let args = ["--repl-diskless-sync-delay", "0"];
        let master = RedisServer::start_with(&args);
        let port = master.port().to_string();
        let replica = RedisServer::start_with(&[&args[..], &["--replicaof", "127.0.0.1", &port]].concat());
        assert!(eventually(|| replica.info("replication", "master_link_status") == "up"));
        let name = Proxy::start(master.port()).await;
        Self { master, replica, name }
    }

    /// The replica takes over, without what it knew, and the master becomes its replica. Its own
    /// copy stays, because it may not ask the new master for another.
    fn fail_over(&self) {
        assert_eq!(self.replica.cli(&["REPLICAOF", "NO", "ONE"]), "OK");
        assert_eq!(self.replica.cli(&["FLUSHALL"]), "OK");
        assert_eq!(self.replica.cli(&["ACL", "SETUSER", "default", "-psync", "-sync"]), "OK");
        let port = self.replica.port().to_string();
        assert_eq!(self.master.cli(&["REPLICAOF", "127.0.0.1", &port]), "OK");
        self.name.lead_to(self.replica.port());
    }

    async fn store(&self, mode: RedisMode) -> RedisStore {
        let store = RedisStore::new(&self.name.url()).unwrap().mode(mode);
        store.ready().await.unwrap();
        store
    }
}

/// Uses a limit of one up, and asks again and again; how long after `fault` a call was admitted.
async fn refused_until_admitted(store: &RedisStore, fault: impl FnOnce()) -> Option<Duration> {
    let limit = Limit::per_hour(1);
    assert!(acquire(store, "spent", limit).await.unwrap().allowed);
    assert!(!acquire(store, "spent", limit).await.unwrap().allowed);
    fault();
    let start = Instant::now();
    while start.elapsed() < NOTICED {
        if acquire(store, "spent", limit).await.is_ok_and(|verdict| verdict.allowed) {
            return Some(start.elapsed());
        }
        sleep(Duration::from_millis(20)).await;
    }
    None
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_who_are_only_refused_leave_a_master_that_has_become_a_replica() {
    for mode in [RedisMode::Scripts, RedisMode::Transactions] {
        let pair = Pair::start().await;
        let store = pair.store(mode).await;
        let took = refused_until_admitted(&store, || pair.fail_over()).await;
        assert!(took.is_some(), "{mode:?}: refused by a replica for {NOTICED:?}");
        assert_eq!(pair.master.info("replication", "role"), "slave");
    }
}

/// Where `ROLE` is forbidden, a script that may write does; where both are, a caller stays where it
/// is, and the server is not asked for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_role_is_asked_for_in_the_way_that_is_allowed() {
    let pair = Pair::start().await;
    assert_eq!(pair.master.cli(&["ACL", "SETUSER", "default", "-role"]), "OK");
    let store = pair.store(RedisMode::Scripts).await;
    assert!(refused_until_admitted(&store, || pair.fail_over()).await.is_some());

    let pair = Pair::start().await;
    assert_eq!(pair.master.cli(&["ACL", "SETUSER", "default", "-role", "-eval"]), "OK");
    let store = pair.store(RedisMode::Scripts).await;
    assert_eq!(refused_until_admitted(&store, || pair.fail_over()).await, None);
    assert_eq!(pair.master.cli(&["ACL", "SETUSER", "default", "+role", "+eval"]), "OK");
    let asked = |server: &RedisServer| {
        let of = |command| server.info("commandstats", command).split("rejected_calls=").nth(1).map(str::to_owned);
        of("cmdstat_role").map(|count| count.split(',').next().unwrap_or_default().to_owned())
    };
    assert_eq!(asked(&pair.master).as_deref(), Some("1"), "asked once");
}

/// A server in use is asked each second; one that no call has used since is not.
#[tokio::test]
async fn an_idle_connection_is_silent() {
    let server = RedisServer::start();
    let store = RedisStore::new(&server.url()).unwrap().deny_cache(false);
    store.ready().await.unwrap();
    let asked = || server.info("commandstats", "cmdstat_role").split(',').next().map(str::to_owned);
    assert!(acquire(&store, "used", Limit::per_hour(1)).await.unwrap().allowed);
    sleep(Duration::from_millis(1_500)).await;
    assert_eq!(asked().as_deref(), Some("calls=2"), "when it connected, and once since");
    sleep(Duration::from_millis(2_500)).await;
    assert_eq!(asked().as_deref(), Some("calls=2"), "an idle connection is asked");
}

/// It loses what it is told with the next full copy of its master.
#[tokio::test]
async fn a_replica_that_takes_writes_is_not_used() {
    let server = RedisServer::start_with(&["--replica-read-only", "no"]);
    assert_eq!(server.cli(&["REPLICAOF", "127.0.0.1", "1"]), "OK");
    let store = RedisStore::new(&server.url()).unwrap();
    let error = store.ready().await.unwrap_err();
    assert!(error.message().contains("replica"), "{error}");
    assert!(acquire(&store, "key", Limit::per_hour(1)).await.is_err());
    assert_eq!(server.cli(&["REPLICAOF", "NO", "ONE"]), "OK");
    let took = recovered(&store, "promoted").await;
    assert!(took < NOTICED, "{took:?}");
}

/// A server that hangs has one question at a time, and does not look healthy because of its role.
#[tokio::test]
async fn a_server_that_hangs_is_asked_once_until_it_answers() {
    let server = RedisServer::start();
    let limiter = ratelimit_runtime::RateLimiter::builder().redis(&server.url()).timeout(DEADLINE).build().unwrap();
    limiter.ready().await.unwrap();
    let rule = ratelimit_runtime::Rule::new("hangs", Limit::per_hour(1_000));
    let key = ratelimit_runtime::Key::global();
    server.freeze();
    let (mut degraded, start) = (0, Instant::now());
    while start.elapsed() < Duration::from_millis(1_800) {
        degraded += u32::from(limiter.acquire(&rule, &key).await.unwrap().is_degraded());
        sleep(Duration::from_millis(20)).await;
    }
    server.thaw();
    assert!(degraded > 20, "calls are answered at once, by the fallback: {degraded}");
    assert!(eventually(|| !server.cli(&["PING"]).is_empty()));
    let asked = server.info("commandstats", "cmdstat_role");
    let asked: u32 = asked.strip_prefix("calls=").and_then(|calls| calls.split(',').next()?.parse().ok()).unwrap();
    assert!(asked <= 3, "when it connected, while it hung, and once because that answer was late: {asked}");
}
