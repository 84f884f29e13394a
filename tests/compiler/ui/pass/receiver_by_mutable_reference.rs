#![deny(warnings)]

use ratelimit_runtime::{RateLimitError, rate_limit};

#[derive(Clone)]
struct Mailer {
    tenant: u32,
}

impl Mailer {
    #[rate_limit(key = "<self.tenant>:<email>", window = "60s", max = 1)]
    async fn send(&mut self, email: &str) -> Result<(), RateLimitError> {
        Ok(())
    }
}

#[tokio::test]
async fn runs() {
    assert!(Mailer { tenant: 1 }.send("a").await.is_ok());
    assert!(Mailer { tenant: 1 }.send("a").await.is_err());
}
