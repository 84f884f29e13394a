#![deny(unused_variables)]

use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 3, count = "err")]
async fn send(email: &str, name: &str) -> Result<(), RateLimitError> {
    Ok(())
}

fn main() {
    let _ = send;
}
