//! A server that is slow or does not serve, and a runtime that nobody drives.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use ratelimit_runtime::__private::{BuiltInStore as _, Health};
use ratelimit_runtime::store::Request;
use ratelimit_runtime::{
    Algorithm, Key, Limit, RateLimitError, RateLimiter, RedisStore, Rule, Source, Store,
};
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};

use super::super::PATIENCE;
use super::{LEASE, limits, spend, spend_by, store};
use crate::support::asking::health;
use crate::support::proxy::Proxy;
use crate::support::redis::{RedisServer, shared};
use crate::support::{polled, source, unique, until};

/// A question that takes ahead waits as long as its connection lives; callers do not.
#[tokio::test]
async fn callers_do_not_wait_for_units_that_a_slow_server_was_asked_for() {
    const TIMEOUT: Duration = Duration::from_millis(100);
    let server = RedisServer::start();
    let limiter = RateLimiter::builder()
        .redis(&server.url())
        .timeout(TIMEOUT)
        .build()
        .unwrap();
    limiter.ready().await.unwrap();
    let rule = Rule::named(unique("slow"), limits()[0]).with_prefetch(Duration::from_secs(10));
    let key = Key::global();
    spend_by(&limiter, &rule, &key).await;
    server.freeze();
    let since = Instant::now();
    let mut degraded = 0;
    // What is held is spent; then two timeouts tell that the server is slow.
    while degraded < 40 {
        let admitted = limiter.acquire(&rule, &key).await.unwrap();
        degraded += u32::from(admitted.is_degraded());
    }
    let took = since.elapsed();
    let settled = limiter.settled_within(TIMEOUT).await;
    server.thaw();
    assert!(took < 10 * TIMEOUT, "{took:?} for 40 calls");
    let Err(RateLimitError::Unavailable(why)) = settled else {
        panic!("{settled:?}");
    };
    assert!(why.message().contains("units taken ahead"), "{why}");
}

/// A runtime that nobody drives reads no reply.
#[tokio::test]
async fn callers_do_not_wait_for_units_that_a_sleeping_runtime_has_asked_for() {
    let (store, key, limits) = (store(shared()).await, unique("asleep"), limits());
    let lease = Duration::from_secs(10);
    let request = Request::new(key.as_bytes(), Algorithm::TokenBucket, &limits);
    let request = request.with_prefetch(lease);
    assert!(store.acquire(request).await.unwrap().allowed);
    let asleep = std::thread::scope(|scope| {
        let asks = || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(store.ready()).unwrap();
            runtime.block_on(async {
                for _ in 0..40 {
                    let _ = polled(store.acquire(request), 0).await;
                }
            });
            runtime
        };
        scope.spawn(asks).join().unwrap()
    });
    for _ in 0..3 {
        let answered = timeout(PATIENCE, store.acquire(request)).await;
        assert!(answered.unwrap().unwrap().allowed);
    }
    asleep.shutdown_background();
}

/// It gives nothing back either; its units are spent no more.
#[tokio::test]
async fn settled_does_not_wait_for_units_of_a_sleeping_runtime() {
    for &algorithm in Algorithm::ALL {
        let (store, key, limits) = (store(shared()).await, unique("asleep"), limits());
        let request = Request::new(key.as_bytes(), algorithm, &limits);
        let request = request.with_prefetch(Duration::from_secs(10));
        let asleep = std::thread::scope(|scope| {
            let spends = || {
                let runtime = Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(store.ready()).unwrap();
                let _ = runtime.block_on(spend(&store, request));
                runtime
            };
            scope.spawn(spends).join().unwrap()
        });
        assert!(store.acquire(request).await.unwrap().cached, "{algorithm}");
        let settled = timeout(PATIENCE, store.settled()).await;
        assert!(settled.is_ok(), "{algorithm}");
        assert!(!store.acquire(request).await.unwrap().cached, "{algorithm}");
        asleep.shutdown_background();
    }
}

/// Of one that refuses writes, all calls are answered without it.
#[tokio::test]
async fn a_server_that_does_not_serve_is_not_asked_for_units() {
    let server = RedisServer::start_without_disk();
    let store = store(&server).await;
    let limits = limits();
    let request = Request::new(b"slow", Algorithm::TokenBucket, &limits).with_prefetch(LEASE);
    let _ = spend(&store, request).await;
    server.fail_to_save();
    until("it is noticed", PATIENCE, async || {
        let _ = store.acquire(request).await;
        health(&store) != Health::Up
    })
    .await;
    sleep(2 * LEASE).await;
    let asked = || server.info("commandstats", "cmdstat_evalsha");
    let before = asked();
    for _ in 0..100 {
        // Those without a timeout would be sent.
        let request = request.with_timeout_at(Instant::now() + PATIENCE);
        assert!(store.acquire(request).await.is_err());
        sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(asked(), before);
}

/// As many as call side by side, each of which asks as often as it is answered.
async fn answers_in_time(limiter: &RateLimiter, rule: &Rule, calls: usize) -> Vec<Source> {
    let callers = (0..16).map(async |_| {
        let mut sources = Vec::new();
        for _ in 0..calls {
            let called = limiter.acquire(rule, &Key::global()).await;
            sources.extend(source(&called));
        }
        sources
    });
    join_all(callers).await.concat()
}

/// Units whose lease is over when they come are none, and a call has no time for them.
#[tokio::test]
async fn a_server_that_is_further_away_than_a_lease_is_asked_for_no_units() {
    let proxy = Proxy::start(shared().port()).await;
    proxy.delay(Duration::from_millis(200));
    let builder = RateLimiter::builder().store(RedisStore::new(&proxy.url()).unwrap());
    let limiter = builder.timeout(Duration::from_secs(1)).build().unwrap();
    limiter.ready().await.unwrap();
    let rule = Rule::named(unique("far"), limits()[0]).with_prefetch(Duration::from_millis(200));
    let sources = answers_in_time(&limiter, &rule, 8).await;
    assert!(sources.iter().all(|by| *by == Source::Store), "{sources:?}");
}

/// A call that waited for units in vain would then be too late to ask.
#[tokio::test]
async fn callers_wait_for_no_units_where_there_is_no_time_left_to_ask() {
    let proxy = Proxy::start(shared().port()).await;
    proxy.delay(Duration::from_millis(300));
    let builder = RateLimiter::builder().store(RedisStore::new(&proxy.url()).unwrap());
    let limiter = builder.timeout(Duration::from_secs(1)).build().unwrap();
    limiter.ready().await.unwrap();
    // Little is left, of which a question takes fewer units than callers wait for.
    let rule = Rule::named(
        unique("no-time"),
        Limit::new(150, Duration::from_secs(10_000)),
    );
    let rule = rule.with_prefetch(Duration::from_secs(10));
    let sources = answers_in_time(&limiter, &rule, 12).await;
    assert!(!sources.contains(&Source::Fallback), "{sources:?}");
}
