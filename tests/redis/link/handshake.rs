//! Connecting has its own time.

use std::time::{Duration, Instant};

use ratelimit_runtime::__private::Health;
use ratelimit_runtime::Limit;
use ratelimit_runtime::RedisStore;

use crate::support::asking::{ask, become_like, connected};
use crate::support::proxy::Proxy;
use crate::support::redis::RedisServer;
use crate::support::tls::{Authority, TlsServer};

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

/// With TLS there is another round trip before the first word.
#[tokio::test]
async fn a_slow_tls_handshake_is_not_cut_short_by_its_callers() {
    let authority = Authority::new();
    let server = TlsServer::start(&authority);
    let proxy = Proxy::start(server.port).await;
    let url = proxy.url().replace("redis://", "rediss://");
    let store = RedisStore::new(&url).unwrap().ca_certificates(authority.certificate()).unwrap();
    // 160 ms for TLS and login, where calls wait for 100 ms, which is enough for an answer.
    proxy.delay(Duration::from_millis(40));
    let start = Instant::now();
    while !ask(&store, "key", Limit::per_hour(1_000)).await.is_answered() {
        assert!(start.elapsed() < Duration::from_secs(2));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(start.elapsed() > Duration::from_millis(160), "{:?}", start.elapsed());
    assert_eq!(proxy.accepted(), 1, "one attempt was enough");
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
