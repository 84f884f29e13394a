//! What the attribute does to functions at run time.

#[path = "../support/mod.rs"]
mod support;

mod arguments;
mod buckets;
mod calendar;
mod concurrent;
mod frameworks;
mod guard;
mod lints;
mod outcomes;
mod shapes;
mod stacking;
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
