//! `policy`: the limits are the limiter's, and may change while it runs.

use ratelimit_runtime::{Algorithm, Limit, Policy, RateLimitError, RateLimiter, rate_limit};
use tokio::time::Instant;

use super::{Failure, MINUTE, Outcome, SECOND, pass, refusal, retry_after};

#[rate_limit(key = "<who>", policy = "login", limiter = limiter)]
async fn log_in(limiter: &RateLimiter, who: &str) -> Outcome {
    Ok(())
}

#[rate_limit(policy = "login", limiter = limiter, cost = cost, wait = "2s", count = "ok")]
async fn import(limiter: &RateLimiter, cost: u32) -> Outcome {
    Ok(())
}

fn limiter(policy: Policy) -> RateLimiter {
    RateLimiter::builder().policy("login", policy).build().unwrap()
}

async fn admitted(limiter: &RateLimiter) -> usize {
    let mut admitted = 0;
    while log_in(limiter, "alice").await.is_ok() {
        admitted += 1;
    }
    admitted
}

#[tokio::test(start_paused = true)]
async fn a_policy_says_all_of_it() {
    let limits = Policy::new(Limit::per_minute(2)).and(Limit::per_hour(3)).with_block(10 * MINUTE);
    let limiter = limiter(limits.with_algorithm(Algorithm::FixedWindow));
    assert_eq!(admitted(&limiter).await, 2);
    let refused = log_in(&limiter, "alice").await;
    assert!(refusal(&refused).unwrap().is_blocked());
    pass(10 * MINUTE).await;
    assert_eq!(admitted(&limiter).await, 1);
    assert_eq!(retry_after(&log_in(&limiter, "alice").await), 50 * MINUTE);
    assert!(log_in(&limiter, "bob").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_policy_is_replaced_while_it_is_used() {
    let limiter = limiter(Policy::new(Limit::per_minute(2)));
    assert_eq!(admitted(&limiter).await, 2);
    limiter.set_policies([("login", Policy::new(Limit::per_minute(5)))]).unwrap();
    assert_eq!(admitted(&limiter).await, 3, "what was charged under the smaller limit counts");
    limiter.set_policies([("login", Policy::new(Limit::per_minute(1)))]).unwrap();
    pass(MINUTE).await;
    assert_eq!(admitted(&limiter).await, 1);
    limiter.set_policies([("login", Policy::new(Limit::per_hour(4)))]).unwrap();
    assert_eq!(admitted(&limiter).await, 4, "another window starts afresh");
    assert_eq!(admitted(&limiter).await, 0);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_policy_is_an_error_and_never_unlimited() {
    let unknown = async |limiter: &RateLimiter| {
        matches!(log_in(limiter, "alice").await, Err(Failure::Limited(RateLimitError::Misconfigured(_))))
    };
    assert!(unknown(&RateLimiter::memory()).await);
    let limiter = limiter(Policy::new(Limit::per_minute(2)));
    limiter.set_policies([("logout", Policy::new(Limit::per_minute(2)))]).unwrap();
    assert!(unknown(&limiter).await, "taken away before it was used");
    limiter.set_policies([("login", Policy::new(Limit::per_minute(2)))]).unwrap();
    assert!(log_in(&limiter, "alice").await.is_ok());
    assert!(limiter.set_policies([("logout", Policy::new(Limit::per_minute(2)))]).is_err(), "it is in use");
    assert_eq!(admitted(&limiter).await, 1);
}

#[tokio::test(start_paused = true)]
async fn cost_wait_and_count_go_with_a_policy() {
    let limiter = limiter(Policy::new(Limit::new(4, SECOND)));
    let start = Instant::now();
    for seconds in [0, 1, 2] {
        assert!(import(&limiter, 3).await.is_ok());
        assert_eq!(start.elapsed().as_secs(), seconds);
    }
    let above = import(&limiter, 5).await;
    assert!(matches!(above, Err(Failure::Limited(RateLimitError::CostExceedsLimit { cost: 5, limit: 4, .. }))));
    assert_eq!(admitted(&limiter).await, 4, "functions under one policy have buckets of their own");
}
