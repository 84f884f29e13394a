//! What a policy decides for the calls under it.

use std::time::Duration;

use ratelimit_runtime::testkit::{FakeClock, FaultyStore};
use ratelimit_runtime::{
    Algorithm, Limit, MemoryStore, OnUnavailable, Override, Policy, RateLimitError, RateLimiter,
    Rule, Source,
};

use super::super::{MINUTE, alice, bob, everywhere};
use crate::support::{misconfigured, says};

#[tokio::test(start_paused = true)]
async fn a_policy_decides_about_calls_in_an_outage() {
    let store = FaultyStore::new(MemoryStore::new());
    let limiter = RateLimiter::builder()
        .store(store.clone())
        .on_unavailable(OnUnavailable::Deny)
        .build()
        .unwrap();
    let rule = Rule::new("outage", Limit::per_minute(1))
        .with_policy("api")
        .with_on_unavailable(OnUnavailable::Local);
    let policy = || Policy::new(Limit::per_minute(2)).with_override(&alice(), Override::max(5));
    limiter.set_policies([("api", policy())]).unwrap();
    store.fail();
    // The fallback knows the overrides, too.
    for _ in 0..5 {
        assert_eq!(
            limiter.acquire(&rule, &alice()).await.unwrap().source(),
            Source::Fallback
        );
    }
    assert!(limiter.acquire(&rule, &alice()).await.is_err());
    limiter
        .set_policies([("api", policy().with_on_unavailable(OnUnavailable::Allow))])
        .unwrap();
    assert_eq!(
        limiter.acquire(&rule, &alice()).await.unwrap().source(),
        Source::Nobody
    );
    limiter
        .set_policies([("api", policy().with_on_unavailable(OnUnavailable::Deny))])
        .unwrap();
    let denied = limiter.acquire(&rule, &bob()).await.unwrap_err();
    assert!(
        matches!(denied, RateLimitError::Unavailable(_)),
        "{denied:?}"
    );

    store.hang();
    let start = tokio::time::Instant::now();
    let quick = policy()
        .with_on_unavailable(OnUnavailable::Deny)
        .with_timeout(Duration::from_millis(5));
    limiter.set_policies([("api", quick)]).unwrap();
    let slow = rule.clone().with_timeout(Duration::from_secs(60));
    let late = limiter.acquire(&slow, &bob()).await.unwrap_err();
    assert!(matches!(late, RateLimitError::Unavailable(_)), "{late:?}");
    assert!(
        start.elapsed() < Duration::from_secs(30),
        "the policy's timeout, not the rule's"
    );
}

#[tokio::test]
async fn a_name_made_at_run_time_reaches_its_policy() {
    static EXPORT: Rule = Rule::new("export", Limit::per_minute(1));
    let limiter = RateLimiter::builder()
        .policy("gold", Policy::new(Limit::per_minute(7)))
        .build()
        .unwrap();
    for plan in ["gold".to_owned(), format!("go{}", "ld")] {
        let rule = EXPORT.with_policy_named(plan);
        assert_eq!(rule.policy(), Some("gold"));
        assert_eq!(limiter.acquire(&rule, &alice()).await.unwrap().limit(), 7);
    }
    says(
        &misconfigured(
            limiter
                .acquire(&EXPORT.with_policy_named("silver"), &alice())
                .await,
        ),
        "no policy `silver`, only `gold`",
    );
    misconfigured(
        limiter
            .acquire(&EXPORT.clone().with_policy_per_call(), &alice())
            .await,
    );
}

/// A limit is raised because calls wait: those that come then do not wait behind them.
#[tokio::test(start_paused = true)]
async fn new_calls_have_a_raised_limit_while_others_wait_under_the_old_one() {
    let policy = |max, concurrent| {
        let policy = Policy::new(Limit::per_hour(max)).with_concurrent(concurrent);
        [("raised", policy)]
    };
    for (max, concurrent) in [(1, 9), (9, 1)] {
        let limiter = RateLimiter::builder()
            .policies(policy(max, concurrent))
            .build()
            .unwrap();
        let rule = Rule::new("raised", Limit::per_hour(1))
            .with_policy("raised")
            .with_concurrent(1)
            .with_wait(60 * MINUTE);
        let key = alice();
        let enter = async || limiter.enter(&rule, &key).await.unwrap();
        let _first = enter().await;
        let mut waiter = Box::pin(limiter.enter(&rule, &key));
        assert!(futures_util::poll!(&mut waiter).is_pending());
        limiter.set_policies(policy(9, 9)).unwrap();
        let start = tokio::time::Instant::now();
        let _others = [enter().await, enter().await];
        assert_eq!(start.elapsed(), Duration::ZERO, "{max} {concurrent}");
        assert!(futures_util::poll!(&mut waiter).is_pending());
    }
}

/// Also of keys that are hashed with what is stored before them.
#[tokio::test]
async fn a_refund_belongs_to_the_policy_under_which_the_call_was_charged() {
    let rule = Rule::new("refunded", Limit::per_minute(1)).with_policy("login");
    let policy = |algorithm| Policy::new(Limit::per_day(2)).with_algorithm(algorithm);
    for limiter in everywhere(&FakeClock::new()) {
        let put = |policy: Policy| limiter.set_policies([("login", policy)]).unwrap();
        let remaining = async || limiter.peek(&rule, &alice()).await.unwrap().remaining();
        put(policy(Algorithm::FixedWindow));
        let before = limiter.acquire(&rule, &alice()).await.unwrap();
        for other in [
            policy(Algorithm::TokenBucket),
            policy(Algorithm::SlidingWindow),
            policy(Algorithm::FixedWindow).and(Limit::per_hour(2)),
        ] {
            put(other);
            let other = limiter.acquire(&rule, &alice()).await.unwrap();
            assert_eq!(remaining().await, 1);
            let refunded = limiter.refund(&rule, &alice(), &before).await;
            assert!(refunded.unwrap());
            assert_eq!(remaining().await, 1, "the later charge stays");
            put(policy(Algorithm::FixedWindow));
            assert_eq!(remaining().await, 2);
            assert!(limiter.acquire(&rule, &alice()).await.is_ok());
            assert!(limiter.refund(&rule, &alice(), &other).await.unwrap());
            assert_eq!(remaining().await, 1);
        }
    }
}
