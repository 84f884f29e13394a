//! What the attribute does to functions at run time.

mod arguments;
mod auto_traits;
mod calendar;
mod concurrent;
mod derived_keys;
mod drops;
mod frameworks;
mod keys;
mod other_attributes;
mod outcomes;
mod shapes;
mod windows;

use std::future::Future;

use ratelimit_runtime::{RateLimitError, RateLimiter};

type Outcome = Result<(), RateLimitError>;

fn is_exceeded<T>(result: &Result<T, RateLimitError>) -> bool {
    matches!(result, Err(RateLimitError::Exceeded(_)))
}

/// Runs a scenario on a limiter of its own.
async fn alone<F: Future>(scenario: F) -> F::Output {
    RateLimiter::memory().scope(scenario).await
}

/// Admits one call of `first`, none after it, and one of `other`, which has another key.
async fn one_each<T>(
    first: impl AsyncFn() -> Result<T, RateLimitError>,
    other: impl AsyncFn() -> Result<T, RateLimitError>,
) {
    alone(async {
        assert!(first().await.is_ok());
        assert!(is_exceeded(&first().await));
        assert!(other().await.is_ok(), "another key");
        assert!(is_exceeded(&other().await));
    })
    .await;
}
