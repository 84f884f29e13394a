use ratelimit_runtime::{RateLimitError, rate_limit};

fn is_error(outcome: &Result<(), RateLimitError>) -> bool {
    outcome.is_err()
}

fn failed(outcome: Result<(), RateLimitError>) -> bool {
    outcome.is_err()
}

#[rate_limit(key = "<email>", window = "60s", max = 3, count = |outcome| outcome.is_err().then_some(1))]
async fn closure_returns_another_type(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = "<email>", window = "60s", max = 3, count = |outcome| { outcome.is_err(); })]
async fn closure_returns_nothing(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = "<email>", window = "60s", max = 3, count = |outcome: Result<(), RateLimitError>| outcome.is_err())]
async fn closure_takes_a_value(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = "<email>", window = "60s", max = 3, count = || true)]
async fn closure_takes_nothing(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = "<email>", window = "60s", max = 3, count = |outcome| matches!(outcome, Err(RateLimitError::WrongPassword)))]
async fn no_such_variant(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = "<email>", window = "60s", max = 3, count = failed)]
async fn path_takes_a_value(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = "<email>", window = "60s", max = 3, count = is_eror)]
async fn unknown_name(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = "<email>", window = "60s", max = 3, count = "err", on_refused = |_error| None)]
async fn not_a_result(email: &str) -> Option<usize> {
    Some(email.len())
}

#[rate_limit(key = "<email>", window = "60s", max = 3, count = "ok", on_refused = |_error| "no")]
async fn opaque(email: &str) -> impl std::fmt::Display {
    "yes"
}

fn main() {
    let _ = is_error;
}
