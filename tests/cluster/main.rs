//! Redis Cluster: what the store makes of slots, redirects and nodes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]
#![allow(clippy::print_stdout, reason = "figures for the reader of the log")]

#[path = "../support/mod.rs"]
mod support;

mod conformance;
mod discovery;
mod listing;
mod misbehaving_nodes;
mod operators;
mod pace;
mod permits;
mod prefetch;
mod redirects;
mod script;
mod slots;
mod stacks;

use std::time::{Duration, Instant};

use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::store::{Request, StoreError, StoreErrorKind, Verdict};
use ratelimit_runtime::{Algorithm, Limit, RedisMode, RedisStore, Store};
use tokio::time::{sleep, timeout};

use self::support::cluster::RedisCluster;
use self::support::unique;

/// What a limiter would grant a call.
const DEADLINE: Duration = Duration::from_millis(100);
/// What a fault may take to heal. Far above what it takes, for slow machines.
const PATIENCE: Duration = Duration::from_secs(15);

async fn on(cluster: &RedisCluster) -> RedisStore {
    let store = cluster.store().deny_cache(false);
    store.ready().await.unwrap();
    store
}

fn request<'a>(key: &'a str, limits: &'a [Limit]) -> Request<'a> {
    Request::new(key.as_bytes(), Algorithm::SlidingWindow, limits)
}

async fn acquire(store: &RedisStore, key: &str, limit: Limit) -> Result<Verdict, StoreError> {
    store.acquire(request(key, &[limit])).await
}

/// As a limiter would call: dropped at the deadline.
async fn acquire_in_time(
    store: &RedisStore,
    key: &str,
    limit: Limit,
) -> Result<Verdict, StoreError> {
    let limits = [limit];
    let request = request(key, &limits).with_timeout_at(Instant::now() + DEADLINE);
    timeout(DEADLINE, store.acquire(request))
        .await
        .unwrap_or_else(|_| Err(StoreError::unavailable("deadline")))
}

/// A key whose slot this node serves.
fn key_on(cluster: &RedisCluster, node: usize) -> String {
    loop {
        let key = unique("on");
        if cluster.owner_of_key(key.as_bytes()) == node {
            return key;
        }
    }
}

/// Another key of the same slot.
fn key_beside(key: &str) -> String {
    let slot = slots::of(key.as_bytes());
    (0_u64..1_000_000)
        .map(|number| format!("{key}-{number}"))
        .find(|other| slots::of(other.as_bytes()) == slot)
        .unwrap()
}
