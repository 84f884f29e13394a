#![deny(warnings)]

use ratelimit_runtime::{Limit, Policy, RateLimitError, RateLimiter, rate_limit};

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
    #[rate_limit(
        limits = ["2/1s", "3/1m"],
        name = "outcomes",
        limiter = self.limiter,
        count = "ok",
        block = "1m..10m",
    )]
    #[rate_limit(
        window = "1s",
        max = 2,
        name = "bursts",
        limiter = self.limiter,
        algorithm = "token_bucket",
        burst = 4,
        cost = 2,
        wait = "1ms",
        prefetch = "20ms",
    )]
    #[rate_limit(
        window = "1s",
        max = 30,
        name = "bytes",
        limiter = self.limiter,
        cost = email.len(),
        actual_cost = |sent| sent.as_ref().map_or(0, |()| 20),
    )]
    #[rate_limit(concurrent = quota.max(1), lease = "5s", key = "<tenant>", name = "in_flight", limiter = self.limiter)]
    #[rate_limit(
        limits = ["20/day", "300/month"],
        algorithm = "fixed_window",
        zone = "Europe/Berlin",
        name = "quota",
        limiter = self.limiter,
    )]
    #[rate_limit(policy = "plan", name = "planned", limiter = self.limiter)]
    async fn send(&self, tenant: u32, email: &str, quota: i32) -> Result<(), RateLimitError> {
        Ok(())
    }
}

async fn send() -> Result<(), RateLimitError> {
    static MAILER: std::sync::LazyLock<Mailer> = std::sync::LazyLock::new(|| {
        let plan = Policy::new(Limit::per_minute(5));
        Mailer { limiter: RateLimiter::builder().policy("plan", plan).build().unwrap() }
    });
    MAILER.send(1, "a", 1).await
}

#[tokio::test]
async fn runs() {
    assert!(send().await.is_ok());
    assert!(send().await.is_err());
}

#[rate_limit(window = "1s", max = 1, on_refused = todo!("a page"))]
async fn page() -> u32 {
    1
}

#[tokio::test]
async fn a_macro_without_a_value_takes_the_place_of_the_refusal() {
    assert_eq!(page().await, 1);
}
