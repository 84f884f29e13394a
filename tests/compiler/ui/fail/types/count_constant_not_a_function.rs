use ratelimit_runtime::{RateLimitError, rate_limit};

const ERRORS: &str = "err";

#[rate_limit(key = "<email>", window = "60s", max = 3, count = ERRORS)]
async fn send(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

fn main() {
    let _ = send;
}
