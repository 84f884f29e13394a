//! What the guard leaves as it is: the auto traits of the future, the order of drops, attributes in
//! the body, and functions of unusual shapes. What the attribute must refuse is in `ui/fail`.
#![allow(clippy::unused_self, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod auto_traits;
mod derived_keys;
mod drops;
mod futures;
mod inner_attributes;
mod keys;
mod shapes;

use ratelimit_runtime::{RateLimitError, RateLimiter};

type Outcome = Result<(), RateLimitError>;

/// Runs a test on a limiter of its own.
async fn alone(test: impl Future<Output = ()>) {
    RateLimiter::memory().scope(test).await;
}

/// Admits one call of `first`, none after it, and one of `other`.
async fn one_each<T>(
    first: impl AsyncFn() -> Result<T, RateLimitError>,
    other: impl AsyncFn() -> Result<T, RateLimitError>,
) {
    alone(async {
        assert!(first().await.is_ok());
        assert!(first().await.is_err());
        assert!(other().await.is_ok(), "another key");
        assert!(other().await.is_err());
    })
    .await;
}
