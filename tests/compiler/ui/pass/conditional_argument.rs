#![deny(warnings)]

use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 1)]
async fn send(email: &str, #[cfg(any())] gone: Gone, #[cfg(not(any()))] _there: u8) -> Result<(), RateLimitError> {
    Ok(())
}

#[tokio::test]
async fn runs() {
    assert!(send("a", 1).await.is_ok());
    assert!(send("a", 1).await.is_err());
}
