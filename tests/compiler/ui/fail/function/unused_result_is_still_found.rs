#![deny(unused_must_use)]

use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 3)]
async fn send(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(window = "60s", max = 3)]
async fn send_all() -> Result<(), RateLimitError> {
    send("a").await;
    send("b");
    Ok(())
}

fn main() {
    let _ = send_all();
}
