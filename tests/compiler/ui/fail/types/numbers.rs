use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = email.to_owned())]
async fn max_not_an_integer(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = "<email>", window = "60s", max = 3, cost = email.len() as f64)]
async fn cost_float(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = "<email>", concurrent = email)]
async fn concurrent_text(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = "<email>", window = "60s", max = quota)]
async fn max_unknown_name(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = "<email>", window = "60s", max = 3, cost = emial.len())]
async fn cost_unknown_name(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = "<email>", window = "60s", max = 3, when = email)]
async fn when_not_a_bool(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = "<email>", window = "60s", max = 3, limiter = email)]
async fn limiter_not_a_limiter(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = "<email>", policy = plan)]
async fn policy_is_an_option(email: &str, plan: Option<&str>) -> Result<(), RateLimitError> {
    Ok(())
}

fn main() {}
