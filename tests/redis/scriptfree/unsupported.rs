//! What cannot be done without scripts is said, when a limiter is built and when a store is asked.

use std::time::Duration;

use ratelimit_runtime::store::{Request, StoreErrorKind};
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Algorithm, Limit, Policy, RateLimitError, RateLimiter, Store};

use super::{plain, scripted, unique};

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

#[tokio::test]
async fn a_request_that_needs_scripts_is_refused_and_writes_nothing() {
    let key = unique("needy");
    let one = |algorithm| Request::new(key.as_bytes(), algorithm, &ONE);
    let server_clock = plain();
    let own_clock = plain().with_clock(FakeClock::new());
    let log = one(Algorithm::SlidingWindow);
    let many = [Limit::per_hour(5_000)];
    let heavy = Request::new(key.as_bytes(), Algorithm::SlidingWindow, &many).with_cost(1_001);
    for (store, request, expected) in [
        (&server_clock, one(Algorithm::TokenBucket), "RedisMode::Scripts"),
        (&server_clock, log.reserving(), "RedisMode::Scripts"),
        (&server_clock, one(Algorithm::FixedWindow).reserving(), "RedisMode::Scripts"),
        (&server_clock, heavy, "cost 1001"),
        (&own_clock, one(Algorithm::FixedWindow), "clock of one's own"),
    ] {
        let error = store.acquire(request).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unsupported);
        assert!(error.message().contains(expected), "{request:?}: {error}");
    }
    let fixed = one(Algorithm::FixedWindow);
    for error in [
        server_clock.block(fixed, Duration::from_secs(1)).await.unwrap_err(),
        server_clock.unblock(fixed).await.unwrap_err(),
        server_clock.settle(log.reserving(), 1, 1).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), StoreErrorKind::Unsupported, "{error}");
    }
    assert!(!server_clock.reset(log).await.unwrap());
    assert!(!server_clock.reset(fixed).await.unwrap());
}
