//! What cannot be done without scripts is said, when a limiter is built and when a store is asked.

use std::time::Duration;

use ratelimit_runtime::store::StoreErrorKind;
use ratelimit_runtime::{Algorithm, Limit, Policy, RateLimitError, RateLimiter};

use super::{plain, scripted};

const ONE: [Limit; 1] = [Limit::per_minute(5)];

fn message(error: &RateLimitError) -> String {
    match error {
        RateLimitError::Misconfigured(error) => {
            assert_eq!(error.kind(), StoreErrorKind::Unsupported, "{error}");
            error.message().to_owned()
        }
        other => panic!("not what it is: {other:?}"),
    }
}

#[tokio::test]
async fn a_policy_that_needs_scripts_is_refused_when_the_limiter_is_built_or_changed() {
    let hour = Limit::per_hour(9);
    let needy = [
        (Policy::new(ONE[0]).with_algorithm(Algorithm::TokenBucket), "RedisMode::Scripts"),
        (Policy::new(ONE[0]).with_algorithm(Algorithm::LeakyBucket), "RedisMode::Scripts"),
        (Policy::new(ONE[0]).with_algorithm(Algorithm::SlidingCounter), "RedisMode::Scripts"),
        (Policy::new(ONE[0]).and(hour).with_algorithm(Algorithm::FixedWindow), "several limits"),
        (Policy::new(ONE[0]).with_algorithm(Algorithm::FixedWindow).with_block(Duration::from_secs(9)), "blocks"),
        (Policy::new(ONE[0]).with_growing_block(Duration::from_secs(9), Duration::from_secs(90)), "blocks that grow"),
    ];
    let fine = [
        Policy::new(ONE[0]).and(hour).with_block(Duration::from_secs(9)),
        Policy::new(ONE[0]).with_algorithm(Algorithm::FixedWindow),
    ];
    let limiter = RateLimiter::builder().store(plain()).build().unwrap();
    for (policy, expected) in needy {
        let built = RateLimiter::builder().store(plain()).policy("login", policy.clone()).build();
        let built = message(&built.unwrap_err());
        assert!(built.contains("`login`") && built.contains(expected), "{built}");
        let changed = limiter.set_policies([("login", policy.clone())]);
        assert_eq!(message(&changed.unwrap_err()), built);
        assert!(RateLimiter::builder().store(scripted()).policy("login", policy).build().is_ok());
    }
    for policy in fine {
        assert!(RateLimiter::builder().store(plain()).policy("login", policy.clone()).build().is_ok());
        limiter.set_policies([("login", policy)]).unwrap();
    }
}
