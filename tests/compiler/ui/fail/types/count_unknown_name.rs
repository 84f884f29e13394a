use ratelimit_runtime::{RateLimitError, rate_limit};

fn is_error(outcome: &Result<(), RateLimitError>) -> bool {
    outcome.is_err()
}

#[rate_limit(key = "<email>", window = "60s", max = 3, count = is_eror)]
async fn send(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

fn main() {
    let _ = send;
}
