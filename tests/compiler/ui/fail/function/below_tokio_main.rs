use ratelimit_runtime::{RateLimitError, rate_limit};

#[tokio::main]
#[rate_limit(window = "60s", max = 1)]
async fn main() -> Result<(), RateLimitError> {
    Ok(())
}

