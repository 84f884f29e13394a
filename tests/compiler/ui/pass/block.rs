#![deny(warnings)]

use std::time::Duration;

use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "1s", max = 1, block = "1h 30m")]
async fn send(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn runs() {
    assert!(send("a").await.is_ok());
    assert!(send("a").await.is_err());
    tokio::time::advance(Duration::from_secs(60)).await;
    assert!(matches!(send("a").await, Err(RateLimitError::Exceeded(refused)) if refused.is_blocked()));
}
