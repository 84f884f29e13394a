//! A store asked as a limiter asks it: until a moment, and told when that passed in vain.

#![allow(
    clippy::unchecked_time_subtraction,
    reason = "a test that cannot go on fails"
)]

use std::time::{Duration, Instant};

use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::__private::Health;
use ratelimit_runtime::store::{Request, StoreErrorKind, Verdict};
use ratelimit_runtime::{Algorithm, Limit, RedisStore, Store as _};

use super::redis::RedisServer;

pub(crate) const TIMEOUT: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) enum Outcome {
    Answered(Verdict),
    /// The store said that it cannot answer.
    Failed(StoreErrorKind),
    /// It said nothing in time. This is how it is.
    Silent(Health),
}

impl Outcome {
    pub(crate) fn is_answered(&self) -> bool {
        matches!(self, Self::Answered(_))
    }

    /// Whether a limiter that says `allow` lets the call through unchecked.
    pub(crate) fn is_unchecked(&self) -> bool {
        matches!(
            self,
            Self::Failed(StoreErrorKind::Unavailable) | Self::Silent(Health::Slow | Health::Down)
        )
    }
}

/// A limiter's own call.
pub(crate) async fn ask(store: &RedisStore, key: &str, limit: Limit) -> Outcome {
    ask_within(store, key, limit, TIMEOUT).await
}

/// The call of a rule that gives it this long.
pub(crate) async fn ask_within(
    store: &RedisStore,
    key: &str,
    limit: Limit,
    timeout: Duration,
) -> Outcome {
    let limits = [limit];
    let request = Request::new(key.as_bytes(), Algorithm::SlidingWindow, &limits);
    let request = request.with_timeout_at(Instant::now() + timeout);
    match tokio::time::timeout(timeout, store.acquire(request)).await {
        Ok(Ok(verdict)) => Outcome::Answered(verdict),
        Ok(Err(error)) => Outcome::Failed(error.kind()),
        Err(_) => Outcome::Silent(store.health(&request)),
    }
}

pub(crate) fn health(store: &RedisStore) -> Health {
    store.health(&Request::new(b"any", Algorithm::SlidingWindow, &[]))
}

/// A store that asks the server each time.
pub(crate) async fn connected(url: &str) -> RedisStore {
    let store = RedisStore::new(url).unwrap().deny_cache(false);
    tokio::time::timeout(Duration::from_secs(10), store.ready())
        .await
        .unwrap()
        .unwrap();
    store
}

/// How many connections the server has now taken, that of this very question and all others of the
/// harness included.
pub(crate) fn connections_taken(server: &RedisServer) -> u64 {
    let info = server.cli(&["INFO", "stats"]);
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("total_connections_received:"))
        .unwrap();
    line.trim().parse().unwrap()
}

/// How many connections were made since [`connections_taken`] said this.
pub(crate) fn connections_since(server: &RedisServer, taken: u64) -> u64 {
    connections_taken(server) - taken - 1
}
