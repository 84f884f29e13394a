//! A store on a cluster keeps the contract of a store.

use ratelimit_conformance::conformance;
use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::RedisStore;
use ratelimit_runtime::testkit::FakeClock;

use crate::support::cluster::shared;

conformance!(cluster, on_a_cluster);

async fn on_a_cluster() -> (RedisStore, FakeClock) {
    let clock = FakeClock::new();
    let store = shared().store().with_clock(clock.clone());
    store.ready().await.unwrap();
    (store, clock)
}
