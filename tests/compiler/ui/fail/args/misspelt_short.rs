use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(ky = "<email>", window = "60s", mx = 3)]
pub async fn send(email: &str) -> Result<(), RateLimitError> {
    let _ = email;
    Ok(())
}

fn main() {}
