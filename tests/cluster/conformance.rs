//! A store on a cluster keeps the contract of a store.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use ratelimit_conformance::conformance;
use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::RedisStore;
use ratelimit_runtime::testkit::FakeClock;

use crate::support::cluster::shared;

conformance!(cluster, on_a_cluster);

async fn on_a_cluster() -> (RedisStore, FakeClock) {
    let clock = FakeClock::new();
    let store = RedisStore::new(&shared().url())
        .unwrap()
        .with_clock(clock.clone());
    store.ready().await.unwrap();
    (store, clock)
}
