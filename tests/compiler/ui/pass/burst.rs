#![deny(warnings)]

use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 30, algorithm = "token_bucket", burst = 1)]
async fn send(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = "<email>", window = "1h", max = 1, algorithm = "leaky_bucket", burst = 2_u8)]
async fn leaky(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[tokio::test]
async fn runs() {
    assert!(send("a").await.is_ok());
    assert!(send("a").await.is_err());
    assert!(leaky("a").await.is_ok());
    assert!(leaky("a").await.is_ok());
    assert!(leaky("a").await.is_err());
}
