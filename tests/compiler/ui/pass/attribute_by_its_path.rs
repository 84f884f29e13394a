#![deny(warnings)]

#[ratelimit_runtime::rate_limit(key = "<email>", window = "60s", max = 1)]
#[::ratelimit_runtime::rate_limit(window = "1d", max = 100)]
async fn send(email: &str) -> Result<(), ratelimit_runtime::RateLimitError> {
    Ok(())
}

#[tokio::test]
async fn runs() {
    assert!(send("a").await.is_ok());
    assert!(send("a").await.is_err());
}
