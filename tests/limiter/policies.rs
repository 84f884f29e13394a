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
    }
}

#[tokio::test]
async fn a_set_that_lacks_a_policy_in_use_is_refused_and_the_old_ones_stay_in_force() {
    let login = Rule::new("policed", Limit::per_minute(1)).with_policy("login");
    let search = Rule::new("searched", Limit::per_minute(1)).with_policy("search");
    let policy = |max| Policy::new(Limit::per_minute(max));
    for (place, limiter) in everywhere(&FakeClock::new()) {
        limiter.set_policies([("login", policy(2)), ("search", policy(3)), ("unused", policy(4))]).unwrap();
        assert!(limiter.acquire(&login, &alice()).await.is_ok(), "{place}");

        let lacks_one = limiter.set_policies([("logn", policy(9)), ("search", policy(9))]).unwrap_err();
        assert!(matches!(lacks_one, RateLimitError::Misconfigured(_)), "{place}: {lacks_one:?}");
        assert!(lacks_one.to_string().contains("lacks the policy `login`"), "{place}: {lacks_one}");
        // As a whole: neither the quota of `login` nor that of `search` has changed.
        assert_eq!(limiter.acquire(&login, &alice()).await.unwrap().remaining(), 0, "{place}");
        assert_eq!(limiter.peek(&search, &alice()).await.unwrap().limit(), 3, "{place}");

        // A look is a use as well, and a set that is replaced hands on what was used.
        limiter.set_policies([("login", policy(5)), ("search", policy(5))]).unwrap();
        let lacks_both = limiter.set_policies([] as [(&str, Policy); 0]).unwrap_err().to_string();
        assert!(lacks_both.contains("lacks the policies `login`, `search`"), "{place}: {lacks_both}");
        assert!(limiter.acquire(&login, &alice()).await.is_ok(), "{place}");
    }
}
