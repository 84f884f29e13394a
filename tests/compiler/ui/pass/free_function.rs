#![deny(warnings)]

use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 1)]
async fn send(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[tokio::test]
async fn runs() {
    assert!(send("a").await.is_ok());
    assert!(send("a").await.is_err());
}
