//! The arguments for limits, costs, outcomes and refused calls at run time: in memory, with tokio's
//! clock stopped.
#![allow(
    clippy::unused_async,
    clippy::needless_pass_by_value,
    reason = "the shapes are the point"
)]

mod block_and_wait;
mod count;
mod limits;
mod policy;

use std::time::Duration;

use ratelimit_runtime::{Decision, RateLimitError};

use super::alone;

/// Errors of these functions.
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
    refusal(result)
        .and_then(Decision::retry_after)
        .expect("a refusal by a limit")
}

async fn pass(duration: Duration) {
    tokio::time::advance(duration).await;
}

/// In a sliding window each unit of cost has a microsecond of its own.
const MICROSECOND: Duration = Duration::from_micros(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// An error that keeps the place where it was made, as that of `eyre` does.
#[derive(Debug)]
struct Located(&'static std::panic::Location<'static>);

impl From<RateLimitError> for Located {
    #[track_caller]
    fn from(_: RateLimitError) -> Self {
        Self(std::panic::Location::caller())
    }
}

const LINE: u32 = line!() + 2;

#[ratelimit_runtime::rate_limit(window = "60s", max = max)]
async fn located(max: u8) -> Result<(), Located> {
    Ok(())
}

#[tokio::test]
async fn the_error_of_a_refused_call_is_made_where_the_attribute_stands() {
    let Located(place) = alone(located(0)).await.unwrap_err();
    assert_eq!((place.file(), place.line()), (file!(), LINE));
}
