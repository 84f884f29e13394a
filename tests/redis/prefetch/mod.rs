//! Units that are taken ahead: spent without asking, charged before, and given back.

mod away;
mod bounds;
mod leases;
mod own;
mod rules;
mod voided;

use std::time::Duration;

use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::store::{Request, Verdict};
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Key, Limit, RateLimiter, RedisStore, Rule, Source, Store};
use tokio::time::sleep;

use crate::support::redis::{RedisServer, shared};

const MAX: u64 = 1_000;
const LEASE: Duration = Duration::from_millis(200);

/// Buckets refill by a unit each 10 seconds.
fn limits() -> [Limit; 1] {
    [Limit::new(MAX, Duration::from_secs(10_000))]
}

async fn store(server: &RedisServer) -> RedisStore {
    let store = server.store();
    store.ready().await.unwrap();
    store
}

/// Stores by one clock.
async fn stores<const N: usize>(clock: &FakeClock) -> [RedisStore; N] {
    let stores = [(); N].map(|()| shared().store().with_clock(clock.clone()));
    for store in &stores {
        store.ready().await.unwrap();
    }
    stores
}

/// Calls until some of the units that were taken ahead are spent; gives how many calls it took, and
/// the last verdict.
async fn spend(store: &RedisStore, request: Request<'_>) -> (u64, Verdict) {
    for call in 1..200 {
        let verdict = store.acquire(request).await.unwrap();
        assert!(verdict.allowed, "{verdict:?}");
        if verdict.cached {
            return (call, verdict);
        }
        sleep(Duration::from_millis(1)).await;
    }
    panic!("nothing is taken ahead");
}

/// How much of the limit is used.
async fn used(store: &RedisStore, request: Request<'_>) -> u64 {
    MAX - store.peek(request).await.unwrap().remaining
}

/// Calls until some of the units that were taken ahead are spent; gives how many calls it took.
async fn spend_by(limiter: &RateLimiter, rule: &Rule, key: &Key) -> u64 {
    for call in 1..200 {
        let admitted = limiter.acquire(rule, key).await.unwrap();
        if admitted.source() == Source::Grant {
            return call;
        }
        sleep(Duration::from_millis(1)).await;
    }
    panic!("nothing is taken ahead");
}
