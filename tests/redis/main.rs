//! Redis: what the store leaves on the server, the way there, faults, formats, and processes that
//! share it. `RATELIMIT_TEST_REDIS_BIN` chooses another server binary.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

#[path = "../support/mod.rs"]
mod support;

mod calendar;
mod damaged;
mod formats;
mod group_commit;
mod guide;
mod link;
mod listing;
mod login;
mod memory_pressure;
mod permits;
mod prefetch;
mod processes;
mod records;
mod redis_cell;
mod replies;
mod role;
mod rules;
mod scriptfree;
mod sentinel;
mod settlements;
mod stored_bytes;
mod tls;
mod urls;

use std::time::{Duration, Instant};

use crate::support::redis::shared;
use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::store::{Request, StoreError, Verdict};
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Algorithm, Limit, RedisMode, RedisStore, Store};
use tokio::time::{sleep, timeout};

const MINUTE: Duration = Duration::from_secs(60);
const MICROSECOND: Duration = Duration::from_micros(1);
/// What a limiter would grant a call.
const DEADLINE: Duration = Duration::from_millis(100);
/// What a fault may take to heal. Far above what it takes, for slow machines.
const PATIENCE: Duration = Duration::from_secs(10);

/// Its logs are sorted sets.
async fn store_with_fake_clock() -> (RedisStore, FakeClock) {
    let clock = FakeClock::new();
    let store = shared()
        .store()
        .with_clock(clock.clone())
        .mode(RedisMode::Scripts);
    store.ready().await.unwrap();
    (store, clock)
}

async fn acquire(store: &RedisStore, key: &str, limit: Limit) -> Result<Verdict, StoreError> {
    store
        .acquire(Request::new(
            key.as_bytes(),
            Algorithm::SlidingWindow,
            &[limit],
        ))
        .await
}

async fn peek(store: &RedisStore, key: &str, limit: Limit) -> Result<Verdict, StoreError> {
    store
        .peek(Request::new(
            key.as_bytes(),
            Algorithm::SlidingWindow,
            &[limit],
        ))
        .await
}

/// As a limiter would call: dropped at the deadline.
async fn acquire_in_time(store: &RedisStore, key: &str) -> Result<Verdict, StoreError> {
    let limit = Limit::new(1_000_000, MINUTE);
    timeout(DEADLINE, acquire(store, key, limit))
        .await
        .unwrap_or_else(|_| Err(StoreError::unavailable("deadline")))
}

/// Calls until one succeeds; says how long that took.
async fn recovered(store: &RedisStore, key: &str) -> Duration {
    let start = Instant::now();
    loop {
        match acquire_in_time(store, key).await {
            Ok(_) => return start.elapsed(),
            Err(error) if start.elapsed() > PATIENCE => panic!("no recovery: {error}"),
            Err(_) => sleep(Duration::from_millis(10)).await,
        }
    }
}

fn number_of(text: &str) -> i64 {
    text.parse().unwrap()
}
