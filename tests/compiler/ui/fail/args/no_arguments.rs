use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit]
async fn bare() -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit()]
async fn empty() -> Result<(), RateLimitError> {
    Ok(())
}

fn main() {
    let _ = (bare(), empty());
}
