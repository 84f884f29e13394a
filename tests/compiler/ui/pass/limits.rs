#![deny(warnings)]

use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", limits = ["1/60s", " 20 / 1d ", "30/1w 2d",])]
async fn send(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[tokio::test]
async fn runs() {
    assert!(send("a").await.is_ok());
    assert!(send("a").await.is_err());
}
