use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", limits = ["10/60s", "5/1h", "1_000/1d"])]
pub async fn send(email: &str) -> Result<(), RateLimitError> {
    let _ = email;
    Ok(())
}

fn main() {}
