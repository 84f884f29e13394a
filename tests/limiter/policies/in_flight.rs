//! Policies that limit calls in flight.

use std::task::Poll;

use ratelimit_runtime::{Limit, Policy, RateLimitError, RateLimiter, Rule, rate_limit};
use tokio::sync::Notify;

use super::super::alice;
use crate::support::{misconfigured, says};

#[rate_limit(limiter = limiter, key = "<user>", policy = "export", concurrent = 5)]
async fn export(limiter: &RateLimiter, user: &str, ends: &Notify) -> Result<(), RateLimitError> {
    ends.notified().await;
    Ok(())
}

/// How many calls are admitted before one is refused for want of a permit.
async fn permitted(limiter: &RateLimiter, user: &str) -> usize {
    let ends = Notify::new();
    let mut running = Vec::new();
    loop {
        let mut call = Box::pin(export(limiter, user, &ends));
        match futures_util::poll!(&mut call) {
            Poll::Pending => running.push(call),
            Poll::Ready(refused) => {
                let error = refused.unwrap_err();
                let refusal = error.decision().unwrap();
                // It comes after the limit.
                assert_eq!((refusal.retry_after(), refusal.limit_index()), (None, 1));
                return running.len();
            }
        }
    }
}

#[tokio::test]
async fn a_policy_says_how_many_calls_may_be_in_flight_and_changes_that() {
    let limiter = RateLimiter::memory();
    let set = |policy: &str| limiter.set_policies([("export", policy.parse().unwrap())]);
    set("1000/1h").unwrap();
    assert_eq!(permitted(&limiter, "alice").await, 5, "the rule's own");
    set("1000/1h concurrent 2 lease 10s").unwrap();
    assert_eq!(permitted(&limiter, "alice").await, 2);
    set("1000/1h concurrent 7").unwrap();
    assert_eq!(permitted(&limiter, "alice").await, 7);
    for wrong in [
        "5/1h concurrent 0",
        "5/1h lease 1s",
        "5/1h lease 2h",
        "5/1h concurrent many",
    ] {
        assert!(wrong.parse::<Policy>().is_err(), "{wrong}");
    }
    let table: Policy =
        toml::from_str("limits = \"1000/1h\"\nconcurrent = 2\nlease = \"10s\"").unwrap();
    assert_eq!(table, "1000/1h concurrent 2 lease 10s".parse().unwrap());
}

#[rate_limit(limiter = limiter, key = "<user>", policy = "export", concurrent = most)]
async fn export_at_most(
    limiter: &RateLimiter,
    user: &str,
    most: u64,
    ends: &Notify,
) -> Result<(), RateLimitError> {
    ends.notified().await;
    Ok(())
}

#[tokio::test]
async fn a_policy_says_how_many_calls_may_be_in_flight_where_a_call_does() {
    let limiter = RateLimiter::memory();
    let ends = Notify::new();
    for (policy, at_most) in [("1000/1h", 3), ("1000/1h concurrent 2", 2)] {
        let policy = policy.parse().unwrap();
        limiter.set_policies([("export", policy)]).unwrap();
        let mut running: Vec<_> = (0..4)
            .map(|_| Box::pin(export_at_most(&limiter, "alice", 3, &ends)))
            .collect();
        let mut pending = 0;
        for call in &mut running {
            pending += usize::from(futures_util::poll!(call).is_pending());
        }
        assert_eq!(pending, at_most);
    }
}

#[tokio::test]
async fn a_policy_with_concurrent_is_misconfigured_for_a_rule_without() {
    for policy in ["5/1h concurrent 2", "5/1h lease 10s"] {
        let limiter = RateLimiter::memory();
        let set = |policy: &str| limiter.set_policies([("plain", policy.parse().unwrap())]);
        set(policy).unwrap();
        let rule = Rule::new("no-permits", Limit::per_minute(1)).with_policy("plain");
        says(
            &misconfigured(limiter.acquire(&rule, &alice()).await),
            "give it `concurrent` too",
        );

        // By now the limiter knows the rule.
        set("5/1h").unwrap();
        assert!(limiter.acquire(&rule, &alice()).await.is_ok());
        let error = misconfigured(set(policy));
        says(&error, "the policy `plain` is for calls in flight");
        says(&error, "the old set stays in force");
        assert!(limiter.acquire(&rule, &alice()).await.is_ok());
    }
}
