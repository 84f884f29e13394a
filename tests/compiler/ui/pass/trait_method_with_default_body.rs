#![deny(warnings)]

use ratelimit_runtime::{RateLimitError, rate_limit};

trait Mail {
    fn tenant(&self) -> u32;

    #[rate_limit(key = "<self.tenant()>:<email>", window = "60s", max = 1)]
    async fn send(&self, email: &str) -> Result<(), RateLimitError> {
        Ok(())
    }
}

struct Mailer;

impl Mail for Mailer {
    fn tenant(&self) -> u32 {
        1
    }
}

#[tokio::test]
async fn runs() {
    assert!(Mailer.send("a").await.is_ok());
    assert!(Mailer.send("a").await.is_err());
}
