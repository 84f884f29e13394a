//! The conformance suite, for a user who may run no scripts. It moves a clock of its own, so fixed
//! windows, which go by the server's, are tried apart.

use ratelimit_conformance::conformance;
use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::RedisStore;
use ratelimit_runtime::testkit::FakeClock;

use super::plain;

conformance!(without_scripts, log_store);

async fn log_store() -> (RedisStore, FakeClock) {
    let clock = FakeClock::new();
    let store = plain().with_clock(clock.clone());
    store.ready().await.unwrap();
    (store, clock)
}
