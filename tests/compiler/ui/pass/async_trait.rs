#![deny(warnings)]

use ratelimit_runtime::{RateLimitError, rate_limit};

#[async_trait::async_trait]
trait Mail: Sync {
    async fn send(&self, to: (u32, &str), copy: Copy) -> Result<(), RateLimitError>;

    #[rate_limit(key = "<email>", window = "60s", max = 1)]
    async fn provided(&self, email: &str) -> Result<(), RateLimitError> {
        Ok(())
    }
}

struct Copy {
    email: String,
}

struct Mailer {
    region: &'static str,
}

#[async_trait::async_trait]
impl Mail for Mailer {
    #[rate_limit(key = "<self.region>:<tenant>:<email>:<copy>", window = "60s", max = 1)]
    async fn send(&self, (tenant, email): (u32, &str), Copy { email: copy }: Copy) -> Result<(), RateLimitError> {
        Ok(())
    }
}

async fn send(email: &str) -> Result<(), RateLimitError> {
    let mailer: Box<dyn Mail> = Box::new(Mailer { region: "eu" });
    mailer.provided(email).await?;
    mailer.send((1, email), Copy { email: String::new() }).await
}

#[tokio::test]
async fn runs() {
    assert!(send("a").await.is_ok());
    assert!(send("a").await.is_err());
}
