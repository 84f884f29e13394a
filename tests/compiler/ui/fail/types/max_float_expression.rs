use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = rate * 2.0)]
async fn send(email: &str, rate: f64) -> Result<(), RateLimitError> {
    Ok(())
}

fn main() {
    let _ = send;
}
