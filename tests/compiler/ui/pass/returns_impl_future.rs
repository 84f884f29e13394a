#![deny(warnings)]

use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 1)]
fn send(email: &str) -> impl Future<Output = Result<(), RateLimitError>> + Send {
    let length = email.len();
    async move {
        assert_eq!(length, 1);
        Ok(())
    }
}

#[tokio::test]
async fn runs() {
    assert!(send("a").await.is_ok());
    assert!(send("a").await.is_err());
}
