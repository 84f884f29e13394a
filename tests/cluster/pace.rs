//! How many calls are on their way to a node at once.

use std::sync::Arc;

use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::{Key, Rule};

use super::*;
use crate::support::cluster::{lone_node, serve_all_slots};
use crate::support::proxy::Proxy;
use crate::support::{settled, strict};

/// On one server, callers of many keys share calls, so few calls are on their way. In a cluster
/// they cannot; then no caller may wait for the call of another key.
#[tokio::test]
async fn callers_of_many_keys_do_not_wait_for_each_other() {
    const CALLERS: u32 = 64;
    const CALLS: u32 = 5;
    const ROUND_TRIP: Duration = Duration::from_millis(40);
    let server = lone_node(&[]);
    serve_all_slots(&server);
    let proxy = Proxy::start(server.port()).await;
    for (name, value) in [
        ("cluster-announce-ip", "127.0.0.1".to_owned()),
        ("cluster-announce-port", proxy.port().to_string()),
    ] {
        assert_eq!(server.cli(&["CONFIG", "SET", name, &value]), "OK");
    }
    let store = RedisStore::new(&format!("redis+cluster://127.0.0.1:{}", proxy.port()))
        .unwrap()
        .deny_cache(false);
    store.ready().await.unwrap();
    assert!(
        acquire(&store, "warm", Limit::per_hour(3))
            .await
            .unwrap()
            .allowed
    );
    let taken = proxy.accepted();
    proxy.delay(ROUND_TRIP / 2);
    let store = Arc::new(store);
    let start = Instant::now();
    let mut running = tokio::task::JoinSet::new();
    for caller in 0..CALLERS {
        let store = Arc::clone(&store);
        running.spawn(async move {
            for call in 0..CALLS {
                assert!(
                    acquire(&store, &format!("{caller}/{call}"), Limit::per_hour(3))
                        .await
                        .unwrap()
                        .allowed
                );
            }
        });
    }
    running.join_all().await;
    let took = start.elapsed();
    // Two at a time would take 160 round trips, one after the other 320.
    assert!(
        took < ROUND_TRIP * CALLS * 6,
        "{took:?} for {CALLS} round trips of {ROUND_TRIP:?}"
    );
    // The slots may have been asked for once more.
    assert!(
        proxy.accepted() <= taken + 1,
        "on one connection, not on {}",
        proxy.accepted() - taken
    );
}

/// All wait for the same node.
#[tokio::test]
async fn settlements_that_wait_for_a_node_do_not_ask_for_its_state_one_by_one() {
    const CALLS: u16 = 500;
    let mut cluster = RedisCluster::start(3, 0);
    let limiter = strict().redis(&cluster.url()).build().unwrap();
    let rule = Rule::new("storm", Limit::per_hour(10_000));
    let keys = (0_u64..).map(|key| Key::of(&key));
    let on_last = keys.filter(|key| {
        let stored = [&b"rl1:sw-3600s:storm:"[..], key.as_bytes()].concat();
        slots::of(&stored) > 11_000
    });
    let mut open = Vec::new();
    for key in on_last.take(CALLS.into()) {
        open.push(limiter.reserve(&rule, &key).await.unwrap());
    }
    assert!(cluster.node(2).number(&["DBSIZE"]) >= CALLS.into());
    cluster.kill(2);
    drop(open);
    sleep(Duration::from_millis(500)).await;
    cluster.restart(2);
    settled(&limiter).await;
    // Each takes a tenth of a millisecond.
    let stats = cluster.node(2).info("commandstats", "cmdstat_cluster|info");
    let asked = stats.strip_prefix("calls=").unwrap_or("0");
    let asked: u64 = asked.split(',').next().unwrap().parse().unwrap();
    assert!(asked < 10, "asked {asked} times by {CALLS} settlements");
}
