//! Policies: limits by name, replaced while running.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::time::Duration;

use super::{MINUTE, alice, everywhere};
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Algorithm, Limit, Policy, RateLimitError, Rule};

#[tokio::test]
async fn policies_are_replaced_while_running() {
    let clock = FakeClock::new();
    let rule = Rule::new("policed", Limit::per_minute(1)).with_policy("login");
    for (place, limiter) in everywhere(&clock) {
        let unknown = limiter.acquire(&rule, &alice()).await.unwrap_err();
        assert!(matches!(unknown, RateLimitError::Misconfigured(_)), "{place}: {unknown:?}");
        assert!(unknown.to_string().contains("no policy `login`"), "{place}: {unknown}");
        assert!(limiter.peek(&rule, &alice()).await.is_err(), "{place}: nor does peek make one up");

        limiter.set_policies([("login", Policy::new(Limit::per_minute(2)))]).unwrap();
        for _ in 0..2 {
            assert!(limiter.acquire(&rule, &alice()).await.is_ok(), "{place}");
        }
        assert!(limiter.acquire(&rule, &alice()).await.is_err(), "{place}");

        // Another `max` goes on with what was counted.
        limiter.set_policies([("login", Policy::new(Limit::per_minute(3)))]).unwrap();
        assert_eq!(limiter.acquire(&rule, &alice()).await.unwrap().remaining(), 0, "{place}");

        // Another algorithm, or another window, starts afresh.
        let fixed = Policy::new(Limit::per_minute(3)).with_algorithm(Algorithm::FixedWindow).with_block(MINUTE * 10);
        limiter.set_policies([("login", fixed)]).unwrap();
        for left in [2, 1, 0] {
            assert_eq!(limiter.acquire(&rule, &alice()).await.unwrap().remaining(), left, "{place}");
        }
        let refused = limiter.acquire(&rule, &alice()).await.unwrap_err();
        assert!(refused.decision().unwrap().is_blocked(), "{place}: the policy's ban");

        let two = Policy::new(Limit::per_hour(100)).and(Limit::new(1, Duration::from_secs(5)));
        limiter.set_policies([("login", two)]).unwrap();
        assert!(limiter.acquire(&rule, &alice()).await.is_ok(), "{place}");
        let refused = limiter.acquire(&rule, &alice()).await.unwrap_err();
        let decision = refused.decision().unwrap();
        assert_eq!((decision.limit_index(), decision.limit()), (1, 1), "{place}");

        // What cannot be used changes nothing.
        let many = (0..20).fold(Policy::new(Limit::per_hour(1)), |policy, _| policy.and(Limit::per_hour(1)));
        assert!(limiter.set_policies([("login", many)]).is_err(), "{place}");
        assert!(limiter.peek(&rule, &alice()).await.is_ok(), "{place}");
        limiter.set_policies(Vec::<(String, Policy)>::new()).unwrap();
        assert!(limiter.acquire(&rule, &alice()).await.is_err(), "{place}: a policy taken away is unknown again");
    }
}
