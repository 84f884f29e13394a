//! Changes by hand, resets and lost connections void what was taken ahead.

use std::sync::Arc;
use std::time::Duration;

use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::store::Request;
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Algorithm, Limit, Store};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::super::PATIENCE;
use super::{LEASE, limits, spend, store, stores, used};
use crate::support::proxy::Proxy;
use crate::support::redis::{RedisServer, shared};
use crate::support::unique;

/// Questions that wait to be sent when their key is reset go before the reset.
#[tokio::test]
async fn what_is_taken_ahead_when_a_key_is_reset_is_not_left_on_it() {
    for turns in 0..8 {
        let clock = FakeClock::new();
        let [store, other] = stores(&clock).await.map(Arc::new);
        let (key, limits) = (
            unique("reset"),
            [Limit::new(40_000, Duration::from_secs(3_600))],
        );
        let request = Request::new(key.as_bytes(), Algorithm::SlidingWindow, &limits);
        let request = request.with_prefetch(LEASE);
        let mut last = 0;
        for calls in 0..10_000 {
            let verdict = store.acquire(request).await.unwrap();
            // Within a grant they fall.
            if calls > 5_000 && verdict.cached && verdict.ticket > last {
                break;
            }
            last = verdict.ticket;
        }
        // Others are asked before them.
        let mut crowd = JoinSet::new();
        for n in 0..20 {
            let (store, key) = (Arc::clone(&store), format!("{key}:{n}"));
            crowd.spawn(async move {
                let limits = [Limit::per_hour(9)];
                let request = Request::new(key.as_bytes(), Algorithm::SlidingWindow, &limits);
                store.acquire(request).await.unwrap()
            });
        }
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        assert!(store.reset(request).await.unwrap());
        store.settled().await.unwrap();
        let left = other.peek(request).await.unwrap().remaining;
        assert_eq!(left, 40_000, "after {turns} turns");
        crowd.join_all().await;
    }
}

#[tokio::test]
async fn a_change_of_the_key_by_hand_voids_what_was_taken_ahead() {
    for &algorithm in Algorithm::ALL {
        let (store, other) = (store(shared()).await, store(shared()).await);
        let limits = limits();
        let lease = Duration::from_secs(10);
        for change in ["reset", "refund", "block", "unblock"] {
            let key = unique(change);
            let request = Request::new(key.as_bytes(), algorithm, &limits).with_prefetch(lease);
            let (calls, verdict) = spend(&store, request).await;
            let stay = match change {
                "reset" => {
                    assert!(store.reset(request).await.unwrap());
                    0
                }
                "refund" => {
                    assert!(store.refund(request, verdict.ticket).await.unwrap());
                    calls - 1
                }
                "block" => {
                    store.block(request, PATIENCE).await.unwrap();
                    let refused = store.acquire(request).await.unwrap();
                    assert!(refused.blocked, "{algorithm}: {refused:?}");
                    assert!(store.unblock(request).await.unwrap());
                    calls
                }
                _ => {
                    assert!(!store.unblock(request).await.unwrap());
                    calls
                }
            };
            store.settled().await.unwrap();
            assert_eq!(used(&other, request).await, stay, "{algorithm}: {change}");
            let next = store.acquire(request).await.unwrap();
            assert!(next.allowed && !next.cached, "{algorithm}: {change}");
        }
    }
}

#[tokio::test]
async fn a_new_connection_voids_what_was_taken_ahead_and_nothing_is_given_back() {
    let server = RedisServer::start();
    for &algorithm in Algorithm::ALL {
        let (store, other) = (store(&server).await, store(&server).await);
        let (key, limits) = (unique("lost"), limits());
        let lease = Duration::from_secs(10);
        let request = Request::new(key.as_bytes(), algorithm, &limits).with_prefetch(lease);
        let _ = spend(&store, request).await;
        let before = used(&other, request).await;
        server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
        // Units are spent until a call asks, and there is a new connection.
        while store.peek(request).await.is_err() {
            sleep(Duration::from_millis(5)).await;
        }
        let asked = store.acquire(request).await.unwrap();
        assert!(asked.allowed && !asked.cached, "{algorithm}");
        store.settled().await.unwrap();
        assert!(used(&other, request).await > before, "{algorithm}");
    }
}

/// Whatever it is that has not what was taken ahead: a replica that lagged, a server without data.
#[tokio::test]
async fn what_is_left_when_a_connection_has_ended_is_not_given_back_on_the_next_one() {
    let (server, next) = (RedisServer::start(), RedisServer::start());
    for &algorithm in Algorithm::ALL {
        let proxy = Proxy::start(server.port()).await;
        let (store, other) = (proxy.store(), store(&next).await);
        store.answers_within(PATIENCE);
        store.ready().await.unwrap();
        let (key, limits) = (unique("left"), limits());
        let request = Request::new(key.as_bytes(), algorithm, &limits).with_prefetch(LEASE);
        for _ in 0..100 {
            let plain = request.with_prefetch(Duration::ZERO);
            assert!(other.acquire(plain).await.unwrap().allowed, "{algorithm}");
        }
        let _ = spend(&store, request).await;
        proxy.lead_to(next.port());
        // The lease ends while the store connects.
        proxy.delay(LEASE);
        proxy.reset_all();
        while store.peek(request).await.is_err() {
            sleep(Duration::from_millis(5)).await;
        }
        store.settled().await.unwrap();
        assert_eq!(used(&other, request).await, 100, "{algorithm}");
    }
}

#[tokio::test]
async fn what_was_taken_ahead_before_a_reset_by_another_store_is_not_taken_from_what_it_has_since()
{
    let lease = Duration::from_secs(10);
    for &algorithm in Algorithm::ALL {
        let clock = FakeClock::new();
        let [first, other] = stores(&clock).await;
        let (key, limits) = (unique("reset"), limits());
        let request = Request::new(key.as_bytes(), algorithm, &limits).with_prefetch(lease);
        let _ = spend(&first, request).await;
        assert!(other.reset(request).await.unwrap());
        clock.advance(Duration::from_millis(2));
        // More than the first store has taken.
        for _ in 0..40 {
            let _ = spend(&other, request).await;
        }
        let before = used(&other, request).await;
        first.settled().await.unwrap();
        assert_eq!(used(&other, request).await, before, "{algorithm}");
    }
}
