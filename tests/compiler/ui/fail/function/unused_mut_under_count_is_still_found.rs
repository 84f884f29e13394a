#![deny(unused_mut)]

use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 3, count = "err")]
async fn send(mut email: String) -> Result<(), RateLimitError> {
    drop(email);
    Ok(())
}

fn main() {
    let _ = send;
}
