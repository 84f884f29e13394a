//! Masters that become replicas under callers who are only refused: a refusal writes nothing, so no
//! server says `READONLY`.

use ratelimit_runtime::__private::BuiltInStore as _;

use super::*;
use crate::support::pair::Pair;
use crate::support::redis::RedisServer;

/// In which a server in use is asked, and some time for slow machines.
const NOTICED: Duration = Duration::from_secs(3);

/// The replica takes over, without what it knew, and the master becomes its replica. Its own copy
/// stays, because it may not ask the new master for another.
fn fail_over(pair: &Pair) {
    pair.cut();
    assert_eq!(pair.replica.cli(&["FLUSHALL"]), "OK");
    assert_eq!(
        pair.replica
            .cli(&["ACL", "SETUSER", "default", "-psync", "-sync"]),
        "OK"
    );
    pair.promote();
}

/// Uses a limit of one up, and asks again and again; how long after `fault` a call was admitted.
async fn refused_until_admitted(store: &RedisStore, fault: impl FnOnce()) -> Option<Duration> {
    let limit = Limit::per_hour(1);
    assert!(acquire(store, "spent", limit).await.unwrap().allowed);
    assert!(!acquire(store, "spent", limit).await.unwrap().allowed);
    fault();
    let start = Instant::now();
    while start.elapsed() < NOTICED {
        if acquire(store, "spent", limit)
            .await
            .is_ok_and(|verdict| verdict.allowed)
        {
            return Some(start.elapsed());
        }
        sleep(Duration::from_millis(20)).await;
    }
    None
}

/// Where `ROLE` is forbidden, a script that says it may write tells a replica from a master. Redis
/// 6.2 knows no such script.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_who_are_only_refused_leave_a_master_that_has_become_a_replica() {
    for (mode, allowed) in [
        (RedisMode::Scripts, "+role"),
        (RedisMode::Transactions, "+role"),
        (RedisMode::Scripts, "-role"),
    ] {
        let pair = Pair::start().await;
        if allowed == "-role" && pair.master.version().starts_with("6.") {
            continue;
        }
        assert_eq!(
            pair.master.cli(&["ACL", "SETUSER", "default", allowed]),
            "OK"
        );
        let store = RedisStore::new(&pair.name.url()).unwrap().mode(mode);
        store.ready().await.unwrap();
        let took = refused_until_admitted(&store, || fail_over(&pair)).await;
        assert!(
            took.is_some(),
            "{mode:?}, {allowed}: refused by a replica for {NOTICED:?}"
        );
        assert_eq!(pair.master.info("replication", "role"), "slave");
    }
}

/// It loses what it is told with the next full copy of its master.
#[tokio::test]
async fn a_replica_that_takes_writes_is_not_used() {
    let server = RedisServer::start_with(&["--replica-read-only", "no"]);
    assert_eq!(server.cli(&["REPLICAOF", "127.0.0.1", "1"]), "OK");
    let store = server.store();
    let error = store.ready().await.unwrap_err();
    assert!(error.message().contains("replica"), "{error}");
    assert!(acquire(&store, "key", Limit::per_hour(1)).await.is_err());
    assert_eq!(server.cli(&["REPLICAOF", "NO", "ONE"]), "OK");
    let took = recovered(&store, "promoted").await;
    assert!(took < NOTICED, "{took:?}");
}
