use ratelimit_runtime::{RateLimitError, rate_limit};

fn tenant(_: &str) -> Result<u32, RateLimitError> {
    Ok(1)
}

#[rate_limit(key = tenant(email)?, window = "60s", max = 3, on_refused = |_error| ())]
pub async fn nothing(email: &str) {}

#[rate_limit(key = tenant(email)?, window = "60s", max = 3, on_refused = |_error| 0)]
pub async fn number(email: &str) -> u32 {
    1
}

fn main() {}
