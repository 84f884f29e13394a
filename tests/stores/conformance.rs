//! The stores of the runtime crate, held to the contract of a store by its own conformance suite.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::support::redis::shared;
use crate::support::unique;
use crate::support::units::Units;
use ratelimit_runtime::LogLayout;
use ratelimit_runtime::store::{Request, Store};
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::testkit::conformance::{Capabilities, Feature};
use ratelimit_runtime::{Algorithm, Limit, MemoryStore, RedisStore, conformance};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

conformance!(memory, memory_store);
conformance!(redis_units, redis_units);
conformance!(redis, redis_store);

conformance!(memory_in_full, memory_store, all);
conformance!(redis_in_full, redis_store, all);
conformance!(redis_sorted_set_in_full, redis_sorted_set, sorted_set());
conformance!(redis_without_scripts_in_full, redis_without_scripts, without_scripts());

async fn memory_store() -> (MemoryStore, FakeClock) {
    let clock = FakeClock::new();
    (MemoryStore::new().with_clock(clock.clone()), clock)
}

async fn redis_store() -> (RedisStore, FakeClock) {
    let clock = FakeClock::new();
    let store = RedisStore::new(&shared().url()).unwrap().with_clock(clock.clone());
    store.ready().await.unwrap();
    (store, clock)
}

async fn redis_units() -> (Units<RedisStore>, FakeClock) {
    let (store, clock) = redis_store().await;
    (Units(store), clock)
}

/// A sorted set has a member for each unit of cost, and does not tell reservations apart.
fn sorted_set() -> Capabilities {
    Capabilities::all()
        .without(Algorithm::SlidingWindow, Feature::LargeCost)
        .without(Algorithm::SlidingWindow, Feature::Reserve)
}

async fn redis_sorted_set() -> (RedisStore, FakeClock) {
    let (store, clock) = redis_store().await;
    (store.log_layout(LogLayout::Zset), clock)
}

/// Without scripts there are two algorithms, and a fixed window goes by the server's clock, which no test moves: it is
/// tried cell by cell, with the table of what works where.
fn without_scripts() -> Capabilities {
    sorted_set()
        .without_algorithm(Algorithm::SlidingCounter)
        .without_algorithm(Algorithm::FixedWindow)
        .without_algorithm(Algorithm::TokenBucket)
        .without_algorithm(Algorithm::LeakyBucket)
}

async fn redis_without_scripts() -> (RedisStore, FakeClock) {
    let (store, clock) = redis_store().await;
    (store.scripts(false), clock)
}

/// 4 threads, each with a runtime of its own, and 250 calls at once on each.
fn assert_threads_share_a_limit(store: impl Store) {
    const MAX: u64 = 100;
    let store = Arc::new(store);
    let key: Arc<[u8]> = unique("threads").into_bytes().into();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (store, key) = (Arc::clone(&store), Arc::clone(&key));
            thread::spawn(move || Runtime::new().unwrap().block_on(admitted_of(250, store, key, MAX)))
        })
        .collect();
    let admitted: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!(admitted, MAX);
}

async fn admitted_of(calls: usize, store: Arc<impl Store>, key: Arc<[u8]>, max: u64) -> u64 {
    let mut tasks = JoinSet::new();
    for _ in 0..calls {
        let (store, key) = (Arc::clone(&store), Arc::clone(&key));
        tasks.spawn(async move {
            let limits = [Limit::per_hour(max)];
            store.acquire(Request::new(&key, Algorithm::SlidingWindow, &limits)).await.unwrap().allowed
        });
    }
    tasks.join_all().await.into_iter().map(u64::from).sum()
}

#[test]
fn threads_share_a_limit_in_memory() {
    assert_threads_share_a_limit(MemoryStore::new());
}

#[test]
fn threads_share_a_limit_on_redis() {
    assert_threads_share_a_limit(Units(RedisStore::new(&shared().url()).unwrap()));
    assert_threads_share_a_limit(RedisStore::new(&shared().url()).unwrap());
}

/// After whatever a store was told to do, at any moment, every key that it has written is on its way out: so no
/// process can die at a moment that leaves one behind.
#[tokio::test]
async fn every_write_on_redis_expires_within_its_horizon() {
    const BAN: Duration = Duration::from_secs(600);
    let server = shared();
    let store = RedisStore::new(&server.url()).unwrap();
    let limits = [Limit::per_minute(3), Limit::new(5, Duration::from_millis(90_001))];
    for (algorithm, unit_log) in [
        (Algorithm::SlidingWindow, true),
        (Algorithm::SlidingWindow, false),
        (Algorithm::SlidingCounter, false),
        (Algorithm::FixedWindow, false),
        (Algorithm::TokenBucket, false),
        (Algorithm::LeakyBucket, false),
    ] {
        let key = unique("expires");
        let request = Request::new(key.as_bytes(), algorithm, &limits).with_unit_log(unit_log);
        let mut longest = request.horizon();
        let expires = |longest: Duration, what: &str| {
            for stored in server.cli(&["KEYS", &format!("{key}*")]).lines().filter(|key| !key.is_empty()) {
                let life: i64 = server.cli(&["PTTL", stored]).parse().unwrap();
                let longest = i64::try_from(longest.as_millis()).unwrap() + 1;
                assert!((1..=longest).contains(&life), "{what} under {algorithm:?}: {life} ms of {longest} ms");
            }
        };
        for round in 0..3 {
            let admitted = store.acquire(request).await.unwrap();
            expires(longest, "acquire");
            store.refund(request, admitted.ticket).await.unwrap();
            expires(longest, "refund");
            if !unit_log {
                let held = store.acquire(request.reserving()).await.unwrap();
                expires(longest, "hold");
                if round % 2 == 0 {
                    store.commit(request.reserving(), held.ticket).await.unwrap();
                } else {
                    store.release(request.reserving(), held.ticket).await.unwrap();
                }
                expires(longest, "settle");
            }
            let _ = store.acquire_all(&[request, request]).await.unwrap();
            expires(longest, "acquire_all");
        }
        for _ in 0..5 {
            let _ = store.acquire(request).await.unwrap();
            let _ = store.peek(request).await.unwrap();
            expires(longest, "a refusal");
        }
        store.unblock(request).await.unwrap();
        expires(longest, "unblock without a ban");
        longest = BAN;
        assert!(store.acquire(request.with_block(BAN)).await.unwrap().blocked);
        expires(longest, "a ban");
        store.block(request, BAN).await.unwrap();
        expires(longest, "block");
        store.unblock(request).await.unwrap();
        expires(longest, "unblock");
        assert!(store.reset(request).await.unwrap());
        store.block(request, BAN).await.unwrap();
        expires(longest, "block of an unused key");
        assert!(store.reset(request).await.unwrap());
    }
}
