use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<id>", window = "60s", max = 1, limiter = ratelimit_runtime::RateLimiter::memory())]
pub async fn memory(id: u32) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = "<id>", window = "60s", max = 1, limiter = std::sync::Arc::new(ratelimit_runtime::RateLimiter::redis("redis://localhost").unwrap()))]
pub async fn redis(id: u32) -> Result<(), RateLimitError> {
    Ok(())
}

fn main() {}
