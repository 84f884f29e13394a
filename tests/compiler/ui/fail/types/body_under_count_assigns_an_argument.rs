use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 3, count = "err")]
async fn send(email: &str, attempts: u32) -> Result<(), RateLimitError> {
    attempts += 1;
    assert_ne!(attempts, 3);
    Ok(())
}

fn main() {
    let _ = send;
}
