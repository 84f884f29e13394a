//! How far away the server is.

use std::time::{Duration, Instant};

use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::store::Request;
use ratelimit_runtime::{Algorithm, Limit, Store as _};

use crate::support::proxy::Proxy;
use crate::support::redis::RedisServer;

/// Where the server is on the same machine, the kernel may hold a call back until the reply to the
/// one before. Far away, each would take twice as long.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_call_to_a_distant_server_does_not_wait_for_the_reply_to_another() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port()).await;
    proxy.delay(Duration::from_millis(20));
    let store = proxy.store().deny_cache(false);
    store.ready().await.unwrap();
    let limits = [Limit::per_hour(1_000)];
    let call = async |key: &str, after: Duration| {
        tokio::time::sleep(after).await;
        let start = Instant::now();
        let request = Request::new(key.as_bytes(), Algorithm::default(), &limits)
            .with_timeout_at(start + Duration::from_secs(30));
        assert!(store.acquire(request).await.unwrap().allowed);
        start.elapsed()
    };
    let mut took = Vec::new();
    for _ in 0..11 {
        let (_, second) = tokio::join!(
            call("one", Duration::ZERO),
            call("another", Duration::from_millis(5))
        );
        took.push(second);
    }
    took.sort_unstable();
    let median = took.get(5).unwrap();
    assert!(*median < Duration::from_millis(60), "{took:?}");
}

/// Each reply takes its time, and scripts of 200 kB several round trips.
#[tokio::test]
async fn a_server_on_the_other_side_of_the_world_is_connected_to() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port()).await;
    proxy.delay(Duration::from_millis(600));
    let store = proxy.store();
    let is_ready = tokio::time::timeout(Duration::from_secs(30), store.ready()).await;
    is_ready.unwrap().unwrap();
}
