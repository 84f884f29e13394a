use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<tenant>/$email", window = "60s", max = 3)]
pub async fn dollar(tenant: u32, email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = "<tenant>/<<email>>", window = "60s", max = 3)]
pub async fn doubled(tenant: u32, email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = "email:<tenant>", window = "60s", max = 3)]
pub async fn label(tenant: u32, email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

fn main() {}
