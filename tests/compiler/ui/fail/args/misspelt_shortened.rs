use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", win = "60s", max = 3)]
pub async fn window(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = "<email>", window = "60s", max = 3, algo = "token_bucket")]
pub async fn algorithm(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = "<email>", per_second = 5)]
pub async fn rate(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

fn main() {}
