use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 3, timeout = "50")]
pub async fn send(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

fn main() {}
