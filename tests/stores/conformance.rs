//! The stores of the runtime crate, held to the contract of a store by its own conformance suite.

use std::time::Duration;

use ratelimit_conformance::conformance;
use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::store::{Feature, Request, Store};
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Limit, MemoryStore, RedisStore};

use crate::support::layer::Layer;
use crate::support::redis::{patient, shared};
use crate::support::unique;

conformance!(memory, memory_store);
conformance!(least_layer, least_layer_around_memory);
conformance!(redis, redis_store);
conformance!(redis_without_deny_cache, redis_without_deny_cache);

async fn memory_store() -> (MemoryStore, FakeClock) {
    let clock = FakeClock::new();
    (MemoryStore::new().with_clock(clock.clone()), clock)
}

async fn redis_store() -> (RedisStore, FakeClock) {
    let clock = FakeClock::new();
    let store = shared().store().with_clock(clock.clone());
    store.ready().await.unwrap();
    (store, clock)
}

/// Behind a pointer, which is a store like any other.
async fn least_layer_around_memory() -> (Box<dyn Store>, FakeClock) {
    let (store, clock) = memory_store().await;
    (Box::new(Layer(store)), clock)
}

/// As a user who may do what the format says in the words of an ACL, list keys, and nothing else.
async fn redis_without_deny_cache() -> (RedisStore, FakeClock) {
    let (clock, server) = (FakeClock::new(), shared());
    let format = include_str!("../../docs/redis_format.md");
    let (_, allowed) = format.split_once("```text\n+evalsha").unwrap();
    let (allowed, _) = allowed.split_once("```").unwrap();
    let user = format!(
        "ACL SETUSER conformance on >pw ~rl1:* ~conformance:* -@all +scan +info +evalsha{allowed}"
    );
    assert_eq!(
        server.cli(&user.split_whitespace().collect::<Vec<_>>()),
        "OK"
    );
    let store = patient(&format!("redis://conformance:pw@{}/", server.address()));
    let store = store.deny_cache(false).with_clock(clock.clone());
    store.ready().await.unwrap();
    (store, clock)
}

/// After whatever a store was told to do, at any moment, every key that it has written is on its
/// way out: so no process can die at a moment that leaves one behind.
#[tokio::test]
async fn every_write_on_redis_expires_within_its_horizon() {
    const BLOCK: Duration = Duration::from_secs(600);
    let server = shared();
    let limits = [
        Limit::per_minute(3),
        Limit::new(5, Duration::from_millis(90_001)),
    ];
    for &algorithm in ratelimit_conformance::ALGORITHMS {
        let store = server.store();
        let key = unique("expires");
        let request = Request::new(key.as_bytes(), algorithm, &limits);
        // One that is in use lives longer, so that its expiry need not be written each time.
        let mut longest = request.horizon() * 2;
        let expires = |longest: Duration, what: &str| {
            for stored in server
                .cli(&["KEYS", &format!("{key}*")])
                .lines()
                .filter(|key| !key.is_empty())
            {
                let life: i64 = server.cli(&["PTTL", stored]).parse().unwrap();
                let longest = i64::try_from(longest.as_millis()).unwrap() + 1;
                assert!(
                    (1..=longest).contains(&life),
                    "{what} under {algorithm:?}: {life} ms of {longest} ms"
                );
            }
        };
        for round in 0..3 {
            let admitted = store.acquire(request).await.unwrap();
            expires(longest, "acquire");
            store.refund(request, admitted.ticket).await.unwrap();
            expires(longest, "refund");
            if store
                .capabilities()
                .supports_feature(algorithm, Feature::Reserve)
            {
                let reserved = store.acquire(request.reserving()).await.unwrap();
                expires(longest, "reserve");
                let _ = store
                    .settle(request.reserving(), reserved.ticket, round % 2)
                    .await
                    .unwrap();
                expires(longest, "settle");
            }
            let _ = store.acquire_all(None, &[request, request]).await.unwrap();
            expires(longest, "acquire_all");
        }
        for _ in 0..5 {
            let _ = store.acquire(request).await.unwrap();
            let _ = store.peek(request).await.unwrap();
            expires(longest, "a refusal");
        }
        store.unblock(request).await.unwrap();
        expires(longest, "unblock without a block");
        longest += BLOCK;
        assert!(
            store
                .acquire(request.with_block(BLOCK))
                .await
                .unwrap()
                .blocked
        );
        expires(longest, "a refusal that blocks");
        store.block(request, BLOCK).await.unwrap();
        expires(longest, "block");
        store.unblock(request).await.unwrap();
        expires(longest, "unblock");
        assert!(store.reset(request).await.unwrap());
        store.block(request, BLOCK).await.unwrap();
        expires(longest, "block of an unused key");
        assert!(store.reset(request).await.unwrap());
    }
}
