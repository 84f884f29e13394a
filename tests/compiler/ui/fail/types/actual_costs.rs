use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 30, cost = 5, actual_cost = |sent| sent.as_ref().map_or(0.0, |n| *n as f64))]
async fn float(email: &str) -> Result<u64, RateLimitError> {
    Ok(1)
}

#[rate_limit(key = "<email>", window = "60s", max = 30, cost = 5, actual_cost = email.len())]
async fn not_a_function(email: &str) -> Result<u64, RateLimitError> {
    Ok(1)
}

fn main() {}
