#![deny(dead_code)]

use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(window = "60s", max = 3, count = "err")]
async fn send() -> Result<(), RateLimitError> {
    Ok(())
}

fn main() {}
