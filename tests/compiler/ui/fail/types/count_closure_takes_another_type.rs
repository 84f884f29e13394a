use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 3, count = |outcome: &Result<u8, String>| outcome.is_err())]
async fn send(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

fn main() {
    let _ = send;
}
