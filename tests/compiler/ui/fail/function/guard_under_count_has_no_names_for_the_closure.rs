use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(window = "60s", max = 3, count = |_| __ratelimit_outcome.is_err())]
async fn send() -> Result<(), RateLimitError> {
    Ok(())
}

fn main() {
    let _ = send;
}
