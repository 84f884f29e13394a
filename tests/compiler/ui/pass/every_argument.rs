#![deny(warnings)]

use ratelimit_runtime::{RateLimitError, rate_limit};

use ratelimit_runtime::RateLimiter;

struct Mailer {
    limiter: RateLimiter,
}

impl Mailer {
    #[rate_limit(
        key = (tenant, email.to_lowercase()),
        window = "1h 30m",
        max = quota.min(10),
        when = !email.is_empty(),
        name = "send",
        limiter = self.limiter,
        on_refused = Err,
        on_unavailable = "deny",
        timeout = "50ms",
        shadow = tenant == 0,
        crate = ::ratelimit_runtime,
    )]
    async fn send(&self, tenant: u32, email: &str, quota: i32) -> Result<(), RateLimitError> {
        Ok(())
    }
}

async fn send() -> Result<(), RateLimitError> {
    static MAILER: std::sync::LazyLock<Mailer> = std::sync::LazyLock::new(|| Mailer { limiter: RateLimiter::memory() });
    MAILER.send(1, "a", 1).await
}

#[tokio::test]
async fn runs() {
    assert!(send().await.is_ok());
    assert!(send().await.is_err());
}
