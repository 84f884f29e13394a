//! Servers close connections that were idle for a while.

use std::time::Duration;

use ratelimit_runtime::__private::Health;
use ratelimit_runtime::store::Request;
use ratelimit_runtime::{Algorithm, Limit, RedisMode, RedisStore, Store as _};

use crate::support::asking::{Outcome, ask_within, connected, health};
use crate::support::redis::RedisServer;

/// A call that has time enough to make another connection, however busy the machine is: it fails if
/// it was sent on one that is closed.
async fn ask(store: &RedisStore) -> Outcome {
    ask_within(store, "key", Limit::per_hour(1_000), Duration::from_secs(20)).await
}

#[tokio::test]
async fn no_call_fails_because_an_idle_connection_was_closed() {
    let server = RedisServer::start_with(&["--timeout", "1"]);
    let store = connected(&server.url()).await;
    for (call, pause) in [0, 900, 1_000, 1_050, 1_100, 1_500, 2_100, 3_000].into_iter().enumerate() {
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let outcome = ask(&store).await;
        assert!(outcome.is_answered(), "call {call}: {outcome:?}");
    }
}

/// The runtime was busy while the server hung up, so it does not know yet.
#[tokio::test]
async fn a_connection_that_was_closed_unnoticed_is_not_used() {
    let server = RedisServer::start();
    let store = connected(&server.url()).await;
    for _ in 0..5 {
        assert!(ask(&store).await.is_answered());
        std::thread::sleep(Duration::from_millis(120));
        server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        let outcome = ask(&store).await;
        assert!(outcome.is_answered(), "{outcome:?}");
    }
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
