//! The stores of the runtime crate, held to the contract of a store by its own conformance suite.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ratelimit_runtime::store::{Answer, Request, Store, StoreError, Verdict};
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::testkit::conformance::{Capabilities, Feature};
use ratelimit_runtime::{Algorithm, Limit, MemoryStore, RedisStore, conformance};
use support::redis::shared;
use support::unique;
use support::units::Units;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

conformance!(memory, memory_store);
conformance!(redis_units, redis_units);
conformance!(redis, redis_store);

conformance!(memory_in_full, memory_store, all);
conformance!(redis_in_full, redis_store, all);
conformance!(redis_units_in_full, redis_unit_log, unit_log());

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

/// A log of units is what rules of unit cost are kept in that reserve nothing.
fn unit_log() -> Capabilities {
    Capabilities::all()
        .without(Algorithm::SlidingWindow, Feature::Cost)
        .without(Algorithm::SlidingWindow, Feature::Reserve)
        .without_algorithm(Algorithm::SlidingCounter)
        .without_algorithm(Algorithm::FixedWindow)
        .without_algorithm(Algorithm::TokenBucket)
        .without_algorithm(Algorithm::LeakyBucket)
}

async fn redis_unit_log() -> (UnitLog, FakeClock) {
    let (store, clock) = redis_store().await;
    (UnitLog(store), clock)
}

/// The Redis store as only rules of a unit log ask it.
struct UnitLog(RedisStore);

impl UnitLog {
    fn checked<'a>(request: Request<'a>) -> Result<Request<'a>, StoreError> {
        let unit = request.algorithm() == Algorithm::SlidingWindow && request.cost() <= 1 && !request.is_held();
        let request = request.with_unit_log(true);
        if unit { Ok(request) } else { Err(StoreError::unsupported("a log of units")) }
    }
}

impl Store for UnitLog {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        Self::checked(request).map_or_else(|error| Answer::ready(Err(error)), |request| self.0.acquire(request))
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        Self::checked(request).map_or_else(|error| Answer::ready(Err(error)), |request| self.0.peek(request))
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        self.0.reset(request.with_unit_log(true))
    }

    fn acquire_all<'a>(&'a self, requests: &'a [Request<'a>]) -> Answer<'a, Vec<Verdict>> {
        Answer::later(async move {
            let requests = requests.iter().map(|request| Self::checked(*request)).collect::<Result<Vec<_>, _>>()?;
            self.0.acquire_all(&requests).await
        })
    }

    fn refund<'a>(&'a self, request: Request<'a>, ticket: u64) -> Answer<'a, bool> {
        Self::checked(request).map_or_else(|error| Answer::ready(Err(error)), |request| self.0.refund(request, ticket))
    }

    fn block<'a>(&'a self, request: Request<'a>, duration: Duration) -> Answer<'a, ()> {
        self.0.block(request.with_unit_log(true), duration)
    }

    fn unblock<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        self.0.unblock(request.with_unit_log(true))
    }
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
