use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 30, cost = 5, actual_cost = |sent| sent.as_ref().ok().copied())]
async fn send(email: &str) -> Result<u64, RateLimitError> {
    Ok(email.len() as u64)
}

fn main() {
    let _ = send("a");
}
