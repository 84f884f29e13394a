//! A block beside shadow mode: calls in shadow mode set none, obey none and leave it as it is.

use ratelimit_runtime::{Limit, Policy, RateLimitError, Rule};

use super::*;

const HOUR: Duration = Duration::from_secs(3_600);

static STRICT: Rule = Rule::new("shadow-block", Limit::per_minute(1))
    .with_growing_block(HOUR, HOUR.saturating_mul(24));
static BY_POLICY: Rule =
    Rule::new("shadow-policy", Limit::per_minute(1)).with_policy("shadow-policy");

/// How long the key is blocked that this rule refuses.
async fn blocked(limiter: &RateLimiter, rule: &Rule) -> Duration {
    let error = limiter.acquire(rule, &alice()).await.unwrap_err();
    let RateLimitError::Exceeded(refusal) = error else {
        panic!("{error:?}")
    };
    assert!(refusal.is_blocked(), "{refusal:?}");
    refusal.retry_after().unwrap()
}

#[tokio::test]
async fn refusals_in_shadow_mode_set_no_block_and_are_no_offences() {
    let clock = FakeClock::new();
    for limiter in everywhere(&clock) {
        let watched = STRICT.clone().with_shadow(true);
        let watch = async || limiter.acquire(&watched, &alice()).await.unwrap();
        assert!(watch().await.is_allowed());
        for _ in 0..3 {
            let seen = watch().await;
            assert!(!seen.is_allowed() && !seen.is_blocked(), "{seen:?}");
        }
        let heavy = watched.clone().with_cost(2);
        let seen = limiter.acquire(&heavy, &alice()).await.unwrap();
        assert!(!seen.is_allowed() && seen.retry_after().is_none());
        // The first call that may be refused is the first offence, whatever this process has seen.
        assert_eq!(blocked(&limiter, &STRICT).await, HOUR);
        for _ in 0..3 {
            let seen = watch().await;
            assert!(!seen.is_allowed() && seen.is_blocked(), "{seen:?}");
        }
        clock.advance(HOUR);
        // They have not lengthened it, and do not forget it.
        assert!(watch().await.is_allowed());
        assert_eq!(blocked(&limiter, &STRICT).await, 2 * HOUR);
        clock.advance(2 * HOUR);
    }
}

#[tokio::test]
async fn a_policy_with_a_block_sets_none_until_its_shadow_mode_ends() {
    let clock = FakeClock::new();
    for limiter in everywhere(&clock) {
        let policy = |shadow| {
            let policy = Policy::new(Limit::per_minute(1)).with_block(HOUR);
            [(BY_POLICY.name(), policy.with_shadow(shadow))]
        };
        limiter.set_policies(policy(true)).unwrap();
        for _ in 0..3 {
            let seen = limiter.acquire(&BY_POLICY, &alice()).await.unwrap();
            assert!(!seen.is_blocked(), "{seen:?}");
        }
        limiter.set_policies(policy(false)).unwrap();
        assert_eq!(blocked(&limiter, &BY_POLICY).await, HOUR);
        // Back in shadow mode the block lasts, and refuses nobody.
        limiter.set_policies(policy(true)).unwrap();
        let seen = limiter.acquire(&BY_POLICY, &alice()).await.unwrap();
        assert!(seen.is_blocked() && !seen.is_allowed(), "{seen:?}");
    }
}

/// A block by hand is for those that are refused.
#[tokio::test]
async fn a_key_that_is_blocked_by_hand_is_served_in_shadow_mode() {
    for limiter in everywhere(&FakeClock::new()) {
        limiter.block(&STRICT, &alice(), HOUR).await.unwrap();
        let watched = STRICT.clone().with_shadow(true);
        let seen = limiter.acquire(&watched, &alice()).await.unwrap();
        assert!(seen.is_blocked() && !seen.is_allowed(), "{seen:?}");
        assert_eq!(blocked(&limiter, &STRICT).await, HOUR);
    }
}
