//! What is promised of every deployment, held by those that consist of several servers: a master
//! that Sentinel names, and a Redis Cluster.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unchecked_time_subtraction,
    reason = "a test that cannot go on fails"
)]
#![allow(clippy::print_stdout, reason = "figures for the reader of the log")]

#[path = "../support/mod.rs"]
mod support;

mod beside;
mod clocks;
mod full;
mod known;
mod prefetch;
mod stacks;
mod starting;
mod strangers;
mod tls;

use std::time::Duration;

use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::{RateLimitError, RedisStore, Source};

use self::support::deployment::Deployment;
use self::support::source;

/// The timeout of every limiter.
const TIMEOUT: Duration = Duration::from_millis(100);
/// How much longer a call may take on a busy machine.
const SLACK: Duration = Duration::from_millis(150);
/// What a fault may take to heal. Far above what it takes, for slow machines.
const PATIENCE: Duration = Duration::from_secs(10);
const HOUR: Duration = Duration::from_secs(3_600);

/// Waits for a store to serve.
async fn ready(store: RedisStore) -> RedisStore {
    let is_ready = tokio::time::timeout(PATIENCE, store.ready()).await;
    is_ready.unwrap().unwrap();
    store
}
