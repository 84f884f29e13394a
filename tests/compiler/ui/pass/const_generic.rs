#![deny(warnings)]

use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<id>", window = "60s", max = 1)]
async fn send<const N: usize>(id: [u8; N]) -> Result<usize, RateLimitError> {
    Ok(N)
}

#[tokio::test]
async fn runs() {
    assert!(send(*b"ab").await.is_ok());
    assert!(send(*b"ab").await.is_err());
}
