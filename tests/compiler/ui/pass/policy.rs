#![deny(warnings)]

use ratelimit_runtime::{Limit, Policy, RateLimitError, RateLimiter, rate_limit};

#[rate_limit(key = "<email>", policy = "mail")]
async fn send(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[tokio::test]
async fn runs() {
    let limiter = RateLimiter::builder().policy("mail", Policy::new(Limit::per_minute(1))).build().unwrap();
    let calls = async {
        assert!(send("a").await.is_ok());
        assert!(matches!(send("a").await, Err(RateLimitError::Exceeded(_))));
    };
    limiter.scope(calls).await;
}
