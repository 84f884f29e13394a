//! What the attribute does to functions at run time.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

/// Admits one call of the first, none after it, and one of the other, which has another key.
macro_rules! one_each {
    ($first:expr, $other:expr) => {
        $crate::alone(async {
            assert!($first.await.is_ok());
            assert!($crate::is_exceeded(&$first.await));
            assert!($other.await.is_ok(), "another key");
            assert!($crate::is_exceeded(&$other.await));
        })
        .await
    };
}

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
