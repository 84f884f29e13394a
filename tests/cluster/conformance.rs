//! A store on a cluster keeps the contract of a store.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{RedisMode, RedisStore, conformance};

use crate::support::cluster::shared;

conformance!(cluster, on_a_cluster);
conformance!(cluster_without_deny_cache, without_deny_cache);
conformance!(cluster_without_scripts, without_scripts);

async fn on_a_cluster() -> (RedisStore, FakeClock) {
    let clock = FakeClock::new();
    let store = RedisStore::new(&shared().url()).unwrap().with_clock(clock.clone());
    store.ready().await.unwrap();
    (store, clock)
}

async fn without_deny_cache() -> (RedisStore, FakeClock) {
    let (store, clock) = on_a_cluster().await;
    (store.deny_cache(false), clock)
}

async fn without_scripts() -> (RedisStore, FakeClock) {
    let (store, clock) = on_a_cluster().await;
    (store.mode(RedisMode::Transactions), clock)
}
