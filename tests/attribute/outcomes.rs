//! Every argument that says how much, of what, and what becomes of a refused call, at run time: on
//! memory, with tokio's clock stopped.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::unused_async, clippy::needless_pass_by_value, reason = "the shapes are the point")]

mod block_and_wait;
mod count;
mod limits;
mod lints;
mod policy;
mod shapes;

use std::future::Future;
use std::time::Duration;

use ratelimit_runtime::{Decision, RateLimitError, RateLimiter};

/// What goes wrong in these functions.
#[derive(Debug, Clone)]
enum Failure {
    /// The body has run, and says no.
    Wrong,
    /// The body has not run.
    Limited(RateLimitError),
}

impl From<RateLimitError> for Failure {
    fn from(error: RateLimitError) -> Self {
        Self::Limited(error)
    }
}

type Outcome = Result<(), Failure>;

/// Runs a scenario on a limiter of its own.
async fn alone<F: Future>(scenario: F) -> F::Output {
    RateLimiter::memory().scope(scenario).await
}

/// The refusal by a limit, if it was one.
fn refusal<T>(result: &Result<T, Failure>) -> Option<&Decision> {
    match result {
        Err(Failure::Limited(RateLimitError::Exceeded(decision))) => Some(decision),
        _ => None,
    }
}

/// The wait that a refusal by a limit names.
#[track_caller]
fn retry_after<T>(result: &Result<T, Failure>) -> Duration {
    refusal(result).and_then(Decision::retry_after).expect("a refusal by a limit")
}

async fn pass(duration: Duration) {
    tokio::time::advance(duration).await;
}

/// What each unit of cost has for itself in a sliding window.
const MICROSECOND: Duration = Duration::from_micros(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
