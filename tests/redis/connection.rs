//! The way to the server: scripts, protocols, runtimes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{MINUTE, acquire, number_of};
use crate::support::eventually;
use crate::support::redis::RedisServer;
use crate::support::unique;
use ratelimit_runtime::store::{Request, StoreErrorKind};
use ratelimit_runtime::{Algorithm, Key, Limit, OnUnavailable, RateLimitError, RateLimiter, RedisStore, Rule, Store};

#[test]
fn each_runtime_has_its_connection_and_takes_it_along() {
    let server = RedisServer::start();
    let store = Arc::new(RedisStore::new(&server.url()).unwrap());
    let (key, limit) = (unique("runtimes"), Limit::new(100, MINUTE));
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    // One of them is the one that asks.
    let clients = || number_of(&server.info("clients", "connected_clients")) - 1;

    let (first, second) = (runtime(), runtime());
    for runtime in [&first, &second, &first] {
        assert!(runtime.block_on(acquire(&store, &key, limit)).unwrap().allowed);
    }
    assert_eq!(clients(), 2);
    drop(first);
    assert!(eventually(|| clients() == 1), "the connection of a dead runtime is closed");
    assert!(second.block_on(acquire(&store, &key, limit)).unwrap().allowed);
    for _ in 0..3 {
        assert!(runtime().block_on(acquire(&store, &key, limit)).unwrap().allowed);
    }
    assert!(eventually(|| clients() == 1));
    drop(store);
    assert!(eventually(|| clients() == 0), "the store closes its connections");
    assert_eq!(server.number(&["ZCARD", &key]), 7);
}

/// They share one timer, which the first of them has set.
#[test]
fn each_caller_of_a_silent_server_waits_for_its_own_timeout() {
    let runtimes = [
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap(),
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap(),
    ];
    for runtime in runtimes {
        let server = RedisServer::start();
        let store = RedisStore::new(&server.url()).unwrap();
        // Longer than any call, so that the connection stays what it is.
        let limiter = RateLimiter::builder().store(store).timeout(MINUTE).on_unavailable(OnUnavailable::Deny);
        let limiter = limiter.build().unwrap();
        runtime.block_on(async {
            limiter.ready().await.unwrap();
            let rule = |timeout| Rule::new("silent", Limit::per_hour(100)).with_timeout(timeout);
            assert!(limiter.acquire(&rule(MINUTE), &Key::of("first")).await.is_ok());
            server.freeze();
            // Later ones are earlier, and later again; one key waits for its turn, others are sent.
            let callers = [300, 150, 50, 100, 200, 50, 50].map(Duration::from_millis).into_iter().enumerate();
            let callers = callers.map(|(at, timeout)| {
                let (limiter, rule) = (limiter.clone(), rule(timeout));
                tokio::spawn(async move {
                    let start = Instant::now();
                    let outcome = limiter.acquire(&rule, &Key::of(&(at % 3).to_string())).await;
                    (timeout, start.elapsed(), outcome)
                })
            });
            for caller in callers.collect::<Vec<_>>() {
                let (timeout, took, outcome) = caller.await.unwrap();
                assert!(matches!(outcome, Err(RateLimitError::Unavailable(_))), "{outcome:?}");
                assert!(took >= timeout && took < timeout + Duration::from_millis(80), "{timeout:?}: {took:?}");
            }
            server.thaw();
            assert!(limiter.acquire(&rule(MINUTE), &Key::of("last")).await.is_ok());
        });
    }
}

#[test]
fn without_a_runtime_the_error_says_so() {
    let store = RedisStore::new("redis://127.0.0.1/").unwrap();
    let limits = [Limit::new(1, MINUTE)];
    let mut answer = store.acquire(Request::new(b"k", Algorithm::SlidingWindow, &limits));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::Pin::new(&mut answer).poll(&mut context) {
        std::task::Poll::Ready(Err(error)) => {
            assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
            assert!(error.message().contains("tokio runtime"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}
