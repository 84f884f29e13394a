#![deny(warnings)]

use ratelimit_runtime::{RateLimitError, rate_limit};

trait Mail {
    async fn send(&self, email: &str) -> Result<(), RateLimitError>;
}

struct Mailer;

impl Mail for Mailer {
    #[rate_limit(key = "<email>", window = "60s", max = 1)]
    async fn send(&self, email: &str) -> Result<(), RateLimitError> {
        Ok(())
    }
}

#[tokio::test]
async fn runs() {
    assert!(Mailer.send("a").await.is_ok());
    assert!(Mailer.send("a").await.is_err());
}
