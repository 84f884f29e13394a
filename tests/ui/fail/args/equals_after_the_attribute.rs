use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit = "3/60s"]
async fn send() -> Result<(), RateLimitError> {
    Ok(())
}

fn main() {
    let _ = send();
}
