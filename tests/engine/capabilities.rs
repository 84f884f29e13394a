//! A request for anything that a store does not declare is refused, never dropped.

use std::time::Duration;

use ratelimit_runtime::store::{Answer, Capabilities, Feature, Request, Verdict};
use ratelimit_runtime::{
    Algorithm, Key, Limit, MemoryStore, Policy, RateLimitError, RateLimiter, Rule, Store,
    rate_limit,
};

/// A store that admits everything, whatever the request says.
pub(crate) struct Careless;

impl Store for Careless {
    fn acquire<'a>(&'a self, _: Request<'a>) -> Answer<'a, Verdict> {
        let mut admitted = Verdict::admitted();
        (admitted.remaining, admitted.ticket) = (1, 1);
        Answer::ready(Ok(admitted))
    }

    fn peek<'a>(&'a self, _: Request<'a>) -> Answer<'a, Verdict> {
        let mut admitted = Verdict::admitted();
        admitted.remaining = 1;
        Answer::ready(Ok(admitted))
    }

    fn reset<'a>(&'a self, _: Request<'a>) -> Answer<'a, bool> {
        Answer::ready(Ok(false))
    }
}

fn words<T: std::fmt::Debug>(answer: Result<T, RateLimitError>) -> String {
    match answer {
        Err(RateLimitError::Misconfigured(error)) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[rate_limit(limiter = limiter, window = "1h", max = 5, count = "err")]
async fn counted(limiter: &RateLimiter) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(limiter = limiter, window = "1h", max = 5)]
#[rate_limit(limiter = limiter, window = "1d", max = 9)]
async fn stacked(limiter: &RateLimiter) -> Result<(), RateLimitError> {
    Ok(())
}

#[tokio::test]
async fn a_rule_that_its_store_cannot_keep_is_misconfigured_at_first_use() {
    let limiter = RateLimiter::with_store(Careless);
    let rule = Rule::new("plain", Limit::per_hour(2));
    let key = Key::global();
    let admission = limiter.acquire(&rule, &key).await.unwrap();

    let block = rule.clone().with_block(Duration::from_secs(1));
    assert!(words(limiter.acquire(&block, &key).await).contains("block"));
    let several = Rule::new("several", Limit::per_hour(2)).and(Limit::per_day(3));
    assert!(words(limiter.acquire(&several, &key).await).contains("several limits"));
    let bucket = Rule::new("bucket", Limit::per_hour(2)).with_algorithm(Algorithm::TokenBucket);
    assert!(words(limiter.acquire(&bucket, &key).await).contains("token_bucket"));
    assert!(words(limiter.peek(&block, &key).await).contains("block"));
    assert!(words(limiter.refund(&rule, &key, &admission).await).contains("refunds"));
    assert!(words(limiter.block(&rule, &key, Duration::from_secs(1)).await).contains("block"));
    assert!(words(limiter.unblock(&rule, &key).await).contains("block"));
    assert!(words(counted(&limiter).await).contains("count"));
    // Where one limit refuses, the store could not give back the charge of the other.
    assert!(words(stacked(&limiter).await).contains("refunds"));
    assert!(words(limiter.reserve(&rule, &key).await).contains("reservations"));
}

#[rate_limit(limiter = one, window = "1h", max = 1)]
#[rate_limit(limiter = other, window = "1h", max = 2)]
async fn on_two_limiters(one: &RateLimiter, other: &RateLimiter) -> Result<(), RateLimitError> {
    Ok(())
}

/// It is charged last, so nothing of it has to be given back.
#[tokio::test]
async fn one_limit_of_a_stack_may_be_on_a_store_that_gives_nothing_back() {
    let (careless, memory) = (RateLimiter::with_store(Careless), RateLimiter::memory());
    on_two_limiters(&memory, &careless).await.unwrap();
    let refused = on_two_limiters(&memory, &careless).await.unwrap_err();
    assert!(
        matches!(refused, RateLimitError::Exceeded(_)),
        "{refused:?}"
    );
    on_two_limiters(&careless, &memory).await.unwrap();
    assert!(words(on_two_limiters(&careless, &careless.clone()).await).contains("refunds"));
}

#[tokio::test]
async fn a_policy_that_its_store_cannot_keep_is_named_when_the_limiter_is_built() {
    let policy = Policy::new(Limit::per_hour(1)).with_block(Duration::from_secs(1));
    let built = RateLimiter::builder()
        .store(Careless)
        .policy("login", policy.clone())
        .build();
    let error = words(built);
    assert!(
        error.contains("`login`") && error.contains("block"),
        "{error}"
    );
    let limiter = RateLimiter::with_store(Careless);
    assert_eq!(words(limiter.set_policies([("login", policy)])), error);
}

#[test]
fn memory_declares_everything() {
    let all = MemoryStore::new().capabilities();
    assert_eq!(all, Capabilities::all());
    for &algorithm in ratelimit_conformance::ALGORITHMS {
        assert!(all.supports_algorithm(algorithm));
        let has_calendar = algorithm == Algorithm::FixedWindow;
        assert_eq!(
            all.supports_feature(algorithm, Feature::Calendar),
            has_calendar,
            "{algorithm}"
        );
    }
}

#[test]
fn the_missing_capability_of_a_request_is_named() {
    let limits = [Limit::per_minute(1), Limit::per_hour(2)];
    let [second, longer] = [1, 9].map(Duration::from_secs);
    let one = Request::new(b"key", Algorithm::SlidingWindow, &limits[..1]);
    let default = Capabilities::default();
    assert!(default.supports(&one).is_ok());
    let with = |feature| default.with(Algorithm::SlidingWindow, &[feature]);
    for (declared, request, word) in [
        (
            default,
            Request::new(b"key", Algorithm::TokenBucket, &limits[..1]),
            "token_bucket",
        ),
        (
            default,
            Request::new(b"key", Algorithm::SlidingWindow, &limits),
            "several limits",
        ),
        (default, one.reserving(), "reservations"),
        (default, one.reserving_estimate(), "reservations"),
        (
            with(Feature::Reserve),
            one.reserving_estimate(),
            "`actual_cost`",
        ),
        (default, one.with_block(second), "blocks"),
        (default, one.with_growing_block(second, longer), "blocks"),
        (
            with(Feature::Block),
            one.with_growing_block(second, longer),
            "`block` of a range",
        ),
    ] {
        let error = declared.supports(&request).unwrap_err();
        assert!(error.message().contains(word), "{error}");
        assert!(Capabilities::all().supports(&request).is_ok());
    }
    assert!(with(Feature::Reserve).supports(&one.reserving()).is_ok());
}
