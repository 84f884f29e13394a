use ratelimit_runtime::{RateLimitError, rate_limit};

fn failed(outcome: Result<(), RateLimitError>) -> bool {
    outcome.is_err()
}

#[rate_limit(key = "<email>", window = "60s", max = 3, count = failed)]
async fn send(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

fn main() {
    let _ = send;
}
