//! Servers close connections on which nobody has spoken for a while.

use std::time::{Duration, Instant};

use ratelimit_runtime::__private::Health;
use ratelimit_runtime::store::Request;
use ratelimit_runtime::{Algorithm, Limit, RedisMode, RedisStore, Store as _};

use super::asking::{Outcome, ask_within, connected, connections_since, connections_taken, health};
use crate::support::redis::RedisServer;

/// A call that has time enough to make another connection, however busy the machine is: it fails if
/// it was sent on one that is closed.
async fn ask(store: &RedisStore) -> Outcome {
    ask_within(store, "key", Limit::per_hour(1_000), Duration::from_secs(20)).await
}

async fn calls_with_pauses(query: &str) {
    let server = RedisServer::start_with(&["--timeout", "1"]);
    let store = connected(&format!("{}{query}", server.url())).await;
    for (call, pause) in [0, 900, 1_000, 1_050, 1_100, 1_500, 2_100, 3_000].into_iter().enumerate() {
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let outcome = ask(&store).await;
        assert!(outcome.is_answered(), "call {call}: {outcome:?}");
    }
}

#[tokio::test]
async fn no_call_fails_because_an_idle_connection_was_closed() {
    calls_with_pauses("?protocol=resp2").await;
}

#[tokio::test]
async fn no_call_fails_because_an_idle_resp3_connection_was_closed() {
    calls_with_pauses("").await;
}

/// The runtime was busy while the server hung up, so it does not know yet.
#[tokio::test]
async fn a_connection_that_was_closed_unnoticed_is_not_used() {
    let server = RedisServer::start();
    for query in ["", "?protocol=resp2"] {
        let store = connected(&format!("{}{query}", server.url())).await;
        for _ in 0..5 {
            assert!(ask(&store).await.is_answered());
            std::thread::sleep(Duration::from_millis(120));
            server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
            let outcome = ask(&store).await;
            assert!(outcome.is_answered(), "{outcome:?}");
        }
    }
}

/// Nobody asks, so nobody needs a connection that the server closes again and again.
#[tokio::test]
async fn an_idle_store_does_not_reconnect_for_ever() {
    let server = RedisServer::start_with(&["--timeout", "1"]);
    let store = connected(&server.url()).await;
    let taken = connections_taken(&server);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(connections_since(&server, taken) <= 2);
    assert!(ask(&store).await.is_answered());
}

/// How many PINGs the server was sent: one goes with each connect, another each second on a
/// connection in use.
fn pings(server: &RedisServer) -> u64 {
    let calls = server.info("commandstats", "cmdstat_ping");
    let calls = calls.strip_prefix("calls=").and_then(|calls| calls.split(',').next());
    calls.map_or(0, |calls| calls.parse().unwrap())
}

/// What the store asks for itself, a second after it has connected, is no use of a connection.
#[tokio::test]
async fn a_connection_that_no_call_has_used_is_made_again_by_the_next_call() {
    let server = RedisServer::start();
    let store = connected(&server.url()).await;
    for _ in 0..2 {
        assert!(ask(&store).await.is_answered());
        let (start, before) = (Instant::now(), pings(&server));
        while pings(&server) == before {
            assert!(start.elapsed() < Duration::from_secs(10), "the store asks nothing");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        let taken = connections_taken(&server);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(connections_since(&server, taken), 0, "no call wants a connection");
    }
    assert!(ask(&store).await.is_answered());
}

/// Transactions have connections of their own. One that has gone stale is replaced, and that is
/// all.
#[tokio::test]
async fn a_stale_connection_of_the_pool_says_nothing_about_the_others() {
    let server = RedisServer::start();
    let store = connected(&server.url()).await.mode(RedisMode::Transactions);
    let limits = [Limit::per_hour(1_000)];
    let request = Request::new(b"log", Algorithm::SlidingWindow, &limits);
    assert!(store.acquire(request).await.unwrap().allowed);
    let ids = |list: &str| -> Vec<String> {
        let id = |line: &str| line.split_whitespace().find_map(|word| word.strip_prefix("id=")).map(str::to_owned);
        list.lines().filter(|line| !line.contains("cmd=client")).filter_map(id).collect()
    };
    let clients = ids(&server.cli(&["CLIENT", "LIST"]));
    let [shared, pooled] = clients.as_slice() else { panic!("{clients:?}") };
    for _ in 0..3 {
        let last = ids(&server.cli(&["CLIENT", "LIST"])).pop().unwrap();
        server.cli(&["CLIENT", "KILL", "ID", &last]);
        assert!(store.acquire(request).await.unwrap().allowed);
        assert_eq!(health(&store), Health::Up);
        let now = ids(&server.cli(&["CLIENT", "LIST"]));
        assert_eq!(now.first(), Some(shared), "the shared connection was kept");
        assert!(!now.contains(pooled));
    }
}
