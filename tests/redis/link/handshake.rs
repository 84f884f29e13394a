//! Connecting has its own time.

use std::time::Duration;

use ratelimit_runtime::__private::Health;
use ratelimit_runtime::Limit;
use ratelimit_runtime::RedisStore;

use crate::support::asking::{ask, become_like, connected};
use crate::support::proxy::Proxy;
use crate::support::redis::RedisServer;

/// A fault of 300 ms that takes the connection along and swallows the login of the next one, which
/// a network would send again: the attempt ends after 2 s of silence, and the next one succeeds.
#[tokio::test]
async fn a_swallowed_login_costs_two_seconds_and_a_pause() {
    let mut server = RedisServer::start();
    let proxy = Proxy::start(server.port()).await;
    let store = connected(&proxy.url()).await;
    proxy.swallow(true);
    // The proxy hangs up when the server does.
    server.restart();
    become_like(&store, Health::Down, Duration::from_secs(1)).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    proxy.swallow(false);
    let took = become_like(&store, Health::Up, Duration::from_secs(4)).await;
    println!("up again after {took:?}");
}

/// Login, role and scripts take a round trip of a second each.
#[tokio::test]
async fn an_attempt_that_takes_seconds_succeeds() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port()).await;
    proxy.delay(Duration::from_millis(500));
    let store = RedisStore::new(&proxy.url()).unwrap();
    let _ = ask(&store, "key", Limit::per_hour(1)).await;
    become_like(&store, Health::Up, Duration::from_secs(5)).await;
    assert_eq!(proxy.accepted(), 1, "one attempt was enough");
}
