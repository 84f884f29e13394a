use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 3, count = "err")]
async fn send(email: &str) -> Result<&str, RateLimitError> {
    let lower = email.to_lowercase();
    Ok(lower.as_str())
}

fn main() {
    let _ = send;
}
