use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = ratelimit_runtime::key!("login:<email>"), window = "60s", max = 3)]
pub async fn send(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

fn main() {}
