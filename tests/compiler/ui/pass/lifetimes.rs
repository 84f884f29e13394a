#![deny(warnings)]

use ratelimit_runtime::{RateLimitError, rate_limit};

struct Mailer<'m> {
    region: &'m str,
}

impl<'m> Mailer<'m> {
    #[rate_limit(key = "<self.region>:<email>:<tenant>", window = "60s", max = 1)]
    async fn send<'e>(&self, email: &'e str, tenant: &str) -> Result<(&'m str, &'e str), RateLimitError> {
        Ok((self.region, email))
    }

    #[rate_limit(window = "60s", max = 1)]
    async fn elided(&self) -> Result<&str, RateLimitError> {
        Ok(self.region)
    }
}

async fn both() -> Result<(), RateLimitError> {
    let mailer = Mailer { region: "eu" };
    mailer.send("a", "t").await?;
    mailer.elided().await.map(drop)
}

#[tokio::test]
async fn runs() {
    assert!(both().await.is_ok());
    assert!(both().await.is_err());
}
