use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 3, cost = 0 as u64)]
pub async fn free(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = "<email>", window = "60s", max = -1i64 as u64)]
pub async fn negative(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = "<email>", window = "60s", max = u32::MIN, cost = 2 - 3)]
pub async fn both(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

fn main() {}
