use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<id>", window = "60s", max = 1, limiter = ratelimit_runtime::RateLimiter::memory())]
pub async fn memory(id: u32) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = "<id>", window = "60s", max = 1, limiter = std::sync::Arc::new(ratelimit_runtime::RateLimiter::redis("redis://localhost").unwrap()))]
pub async fn redis(id: u32) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = "<id>", window = "60s", max = 1, limiter = limiter.unwrap_or_else(ratelimit_runtime::RateLimiter::memory))]
pub async fn otherwise(id: u32, limiter: Option<ratelimit_runtime::RateLimiter>) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = "<id>", window = "60s", max = 1, limiter = std::sync::LazyLock::new(ratelimit_runtime::RateLimiter::memory))]
pub async fn lazy(id: u32) -> Result<(), RateLimitError> {
    Ok(())
}

fn main() {}
