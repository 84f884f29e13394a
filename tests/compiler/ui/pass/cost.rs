#![deny(warnings)]

use std::num::NonZeroU16;

use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 3, cost = 2)]
async fn send(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(window = "60s", max = 3, cost = text.len())]
async fn weighs_its_text(text: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(window = "60s", max = 3, cost = *weight)]
async fn weighs(weight: &NonZeroU16) -> Result<(), RateLimitError> {
    Ok(())
}

#[tokio::test]
async fn runs() {
    assert!(send("a").await.is_ok());
    assert!(send("a").await.is_err());
    assert!(weighs_its_text("ab").await.is_ok());
    assert!(weighs_its_text("ab").await.is_err());
    let two = NonZeroU16::new(2).unwrap();
    assert!(weighs(&two).await.is_ok());
    assert!(weighs(&two).await.is_err());
}
