#![deny(warnings)]

use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<type>:<r#match>", window = "60s", max = 1)]
async fn r#yield(r#type: &str, r#match: u8) -> Result<(), RateLimitError> {
    Ok(())
}

#[tokio::test]
async fn runs() {
    assert!(r#yield("a", 1).await.is_ok());
    assert!(r#yield("a", 1).await.is_err());
}
