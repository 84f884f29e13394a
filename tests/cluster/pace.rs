//! How many calls are on their way to a node at once.

use std::sync::Arc;

use ratelimit_runtime::__private::BuiltInStore as _;

use super::*;
use crate::support::cluster::{lone_node, serve_all_slots};
use crate::support::proxy::Proxy;
use crate::support::redis::RedisServer;

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
    for (name, value) in
        [("cluster-announce-ip", "127.0.0.1".to_owned()), ("cluster-announce-port", proxy.port().to_string())]
    {
        assert_eq!(server.cli(&["CONFIG", "SET", name, &value]), "OK");
    }
    let store = RedisStore::new(&format!("redis+cluster://127.0.0.1:{}", proxy.port())).unwrap().deny_cache(false);
    store.ready().await.unwrap();
    assert!(acquire(&store, "warm", Limit::per_hour(3)).await.unwrap().allowed);
    let taken = proxy.accepted();
    proxy.delay(ROUND_TRIP / 2);
    let store = Arc::new(store);
    let start = Instant::now();
    let mut running = tokio::task::JoinSet::new();
    for caller in 0..CALLERS {
        let store = Arc::clone(&store);
        running.spawn(async move {
            for call in 0..CALLS {
                assert!(acquire(&store, &format!("{caller}/{call}"), Limit::per_hour(3)).await.unwrap().allowed);
            }
        });
    }
    running.join_all().await;
    let took = start.elapsed();
    // Two at a time would take 160 round trips, one after the other 320.
    assert!(took < ROUND_TRIP * CALLS * 6, "{took:?} for {CALLS} round trips of {ROUND_TRIP:?}");
    // The slots may have been asked for once more.
    assert!(proxy.accepted() <= taken + 1, "on one connection, not on {}", proxy.accepted() - taken);
}

/// How many calls for ever new keys so many callers make in a second.
async fn throughput(store: RedisStore, callers: u64) -> u64 {
    store.ready().await.unwrap();
    let store = Arc::new(store);
    let time = Duration::from_secs(2);
    let run = async |time: Duration| {
        let (start, mut running) = (Instant::now(), tokio::task::JoinSet::new());
        for caller in 0..callers {
            let (store, prefix) = (Arc::clone(&store), unique("pace"));
            running.spawn(async move {
                let mut calls = 0_u64;
                while start.elapsed() < time {
                    let key = format!("{prefix}/{caller}/{calls}");
                    assert!(acquire(&store, &key, Limit::per_minute(3)).await.unwrap().allowed);
                    calls += 1;
                }
                calls
            });
        }
        let calls: u64 = running.join_all().await.into_iter().sum();
        calls * 1_000 / u64::try_from(start.elapsed().as_millis()).unwrap()
    };
    run(time / 4).await;
    run(time).await
}

/// Prints figures: `cargo test --release -p ratelimit-tests --test cluster
/// --all-features -- --ignored --nocapture`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it measures"]
async fn a_cluster_beside_one_server() {
    let cluster = RedisCluster::start(3, 0);
    let server = RedisServer::start();
    let store = |url: &str| RedisStore::new(url).unwrap().deny_cache(false);
    for _ in 0..3 {
        for callers in [1, 64, 512] {
            let alone = throughput(store(&server.url()), callers).await;
            let cluster = throughput(store(&cluster.url()), callers).await;
            println!("{callers} callers: one server {alone}/s; three masters {cluster}/s");
        }
    }
}
