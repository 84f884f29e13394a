use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 30, cost = 5, actual_cost = |_| email.len())]
async fn send(email: String) -> Result<u64, RateLimitError> {
    let email = email.into_bytes();
    Ok(email.len() as u64)
}

fn main() {
    let _ = send("a".into());
}
