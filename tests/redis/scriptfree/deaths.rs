//! Processes and connections that end at any moment: no key without an expiry, no admission too
//! many.

use std::sync::Arc;
use std::time::Duration;

use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::store::{Request, StoreErrorKind};
use ratelimit_runtime::{
    Algorithm, Key, Limit, OnUnavailable, RateLimitError, RedisMode, RedisStore, Rule, Source,
    Store,
};
use tokio::task::JoinSet;

use crate::processes::expiring_keys;
use crate::support::proxy::Proxy;
use crate::support::{eventually, strict};

use super::{ask, unique, url, without_scripts};

/// A process that dies is a connection that ends in the middle of what it was sending. Here it does
/// so behind every few bytes of an admission.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_ends_anywhere_leaves_all_or_nothing() {
    let server = without_scripts();
    for algorithm in [Algorithm::SlidingWindow, Algorithm::FixedWindow] {
        let (mut charged, mut lost, mut done) = (0, 0, 0);
        for bytes in (0..1_700).step_by(15) {
            let proxy = Proxy::start(server.port()).await;
            let url = format!("redis://plain:secret@{}/", proxy.address());
            let store = RedisStore::new(&url).unwrap().mode(RedisMode::Transactions);
            let key = unique("cut");
            let limits = [Limit::per_minute(5)];
            let request = Request::new(key.as_bytes(), algorithm, &limits);
            // Connects all it needs, and writes once.
            store.ready().await.unwrap();
            assert!(store.acquire(request).await.unwrap().allowed);
            proxy.cut_after(Some(bytes));
            let cut = tokio::time::timeout(Duration::from_secs(5), store.acquire(request))
                .await
                .unwrap();
            proxy.cut_after(None);
            let direct = RedisStore::new(&super::url(&server))
                .unwrap()
                .mode(RedisMode::Transactions);
            direct.ready().await.unwrap();
            let remaining = direct.peek(request).await.unwrap().remaining;
            match cut {
                Ok(verdict) => {
                    assert!(verdict.allowed);
                    assert_eq!(remaining, 3);
                    done += 1;
                }
                Err(error) => {
                    // The connection of its own was lost, or that of the link.
                    let kinds = [StoreErrorKind::Unavailable, StoreErrorKind::TimedOut];
                    assert!(kinds.contains(&error.kind()), "{error}");
                    assert!([3, 4].contains(&remaining), "{remaining}");
                    charged += u32::from(remaining == 3);
                    lost += u32::from(remaining == 4);
                }
            }
            expiring_keys(&server);
        }
        assert!(
            lost > 5 && done > 5,
            "the cuts were not in the middle: {lost} lost, {charged} charged, {done} done"
        );
    }
}

/// The connection of a cancelled caller is not used again, and its charge counts at most once.
#[tokio::test(flavor = "multi_thread")]
async fn callers_who_give_up_do_no_harm() {
    let server = without_scripts();
    let store = Arc::new(
        RedisStore::new(&url(&server))
            .unwrap()
            .mode(RedisMode::Transactions),
    );
    let limits = [Limit::per_hour(10_000)];
    for algorithm in [Algorithm::SlidingWindow, Algorithm::FixedWindow] {
        let key = unique("impatient");
        let request = Request::new(key.as_bytes(), algorithm, &limits);
        let mut answered = 0;
        for nth in 0..300_u64 {
            let patience = Duration::from_micros(nth * 3);
            if let Ok(verdict) = tokio::time::timeout(patience, store.acquire(request)).await {
                assert!(verdict.unwrap().allowed);
                answered += 1;
            }
        }
        let verdict = store.acquire(request).await.unwrap();
        let used = 10_000 - verdict.remaining;
        assert!(
            (answered + 1..=301).contains(&used),
            "{used} used, {answered} answered"
        );
        expiring_keys(&server);
    }
    // Nothing is left of the connections that were given up.
    assert!(
        eventually(|| server.cli(&["CLIENT", "LIST"]).lines().count() <= 12),
        "connections are closed"
    );
}

/// A transaction whose key has changed meanwhile is made again, on the same connection.
#[tokio::test(flavor = "multi_thread")]
async fn callers_of_two_stores_at_once_are_all_answered_on_few_connections() {
    let server = without_scripts();
    let stores = [(); 2].map(|()| {
        Arc::new(
            RedisStore::new(&url(&server))
                .unwrap()
                .mode(RedisMode::Transactions),
        )
    });
    let mut running = JoinSet::new();
    for caller in 0..200 {
        let store = Arc::clone(&stores[caller % 2]);
        running.spawn(async move {
            ask(&store, "key", Algorithm::SlidingWindow, Limit::per_day(999))
                .await
                .allowed
        });
    }
    assert_eq!(running.join_all().await, [true; 200]);
    assert_eq!(server.number(&["ZCARD", "key%log"]), 200);
    let connections = server.info("stats", "total_connections_received");
    assert!(
        connections.parse::<u64>().unwrap() <= 20,
        "{connections} connections"
    );
}

/// A flood that takes all connections of a server must not switch limits off.
#[tokio::test]
async fn a_server_without_room_for_another_connection_lets_no_call_through_unchecked() {
    let server = without_scripts();
    let store = RedisStore::new(&url(&server))
        .unwrap()
        .mode(RedisMode::Transactions);
    let limiter = strict()
        .store(store)
        .on_unavailable(OnUnavailable::Allow)
        .build()
        .unwrap();
    limiter.ready().await.unwrap();
    assert_eq!(server.cli(&["CONFIG", "SET", "maxclients", "1"]), "OK");
    let rule = Rule::new("login", Limit::per_hour(2));
    let mut admitted = 0;
    for _ in 0..10 {
        match limiter.acquire(&rule, &Key::of("alice")).await {
            Ok(decision) => {
                assert_eq!(decision.source(), Source::Fallback, "{decision:?}");
                admitted += 1;
            }
            Err(RateLimitError::Exceeded(_)) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    assert_eq!(admitted, 2);
}
