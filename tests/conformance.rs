//! The stores of the runtime crate, held to the contract of a store by its own conformance suite.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::sync::Arc;
use std::thread;

use ratelimit_runtime::store::{Request, Store};
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Algorithm, Limit, MemoryStore, RedisStore, conformance};
use support::redis::shared;
use support::unique;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

conformance!(memory, memory_store);
conformance!(redis, redis_store);

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
    assert_threads_share_a_limit(RedisStore::new(&shared().url()).unwrap());
}
