#![deny(warnings)]

use std::time::Duration;

use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "10s", max = 1, wait = "1m")]
async fn send(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn runs() {
    let start = tokio::time::Instant::now();
    assert!(send("a").await.is_ok());
    assert!(send("a").await.is_ok());
    assert!(start.elapsed() >= Duration::from_secs(10));
}
