#![deny(warnings)]

use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 1)]
fn send<'a>(email: &'a str) -> std::pin::Pin<Box<dyn Future<Output = Result<(), RateLimitError>> + Send + 'a>> {
    Box::pin(async move { Ok(()) })
}

#[tokio::test]
async fn runs() {
    assert!(send("a").await.is_ok());
    assert!(send("a").await.is_err());
}
