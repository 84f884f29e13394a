//! A request for anything that a store does not declare is refused, never dropped.

use std::time::Duration;

use ratelimit_runtime::store::{Answer, Capabilities, Feature, Request, Verdict};
use ratelimit_runtime::{
    Algorithm, Key, Limit, MemoryStore, Policy, RateLimitError, RateLimiter, Rule, Store,
    rate_limit,
};

use crate::support::layer::forward;
use crate::support::{misconfigured, says};

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
    says(&misconfigured(limiter.acquire(&block, &key).await), "block");
    let several = Rule::new("several", Limit::per_hour(2)).and(Limit::per_day(3));
    says(
        &misconfigured(limiter.acquire(&several, &key).await),
        "several limits",
    );
    let bucket = Rule::new("bucket", Limit::per_hour(2)).with_algorithm(Algorithm::TokenBucket);
    says(
        &misconfigured(limiter.acquire(&bucket, &key).await),
        "token_bucket",
    );
    says(&misconfigured(limiter.peek(&block, &key).await), "block");
    says(
        &misconfigured(limiter.refund(&rule, &key, &admission).await),
        "refunds",
    );
    says(
        &misconfigured(limiter.block(&rule, &key, Duration::from_secs(1)).await),
        "block",
    );
    says(&misconfigured(limiter.unblock(&rule, &key).await), "block");
    says(&misconfigured(counted(&limiter).await), "count");
    // Where one limit refuses, the store could not give back the charge of the other.
    says(&misconfigured(stacked(&limiter).await), "refunds");
    says(
        &misconfigured(limiter.reserve(&rule, &key).await),
        "reservations",
    );
}

#[tokio::test]
async fn a_policy_that_its_store_cannot_keep_is_named_when_the_limiter_is_built() {
    let policy = Policy::new(Limit::per_hour(1)).with_block(Duration::from_secs(1));
    let built = RateLimiter::builder()
        .store(Careless)
        .policy("login", policy.clone())
        .build();
    let error = misconfigured(built);
    assert!(
        error.contains("`login`") && error.contains("block"),
        "{error}"
    );
    let limiter = RateLimiter::with_store(Careless);
    assert_eq!(
        misconfigured(limiter.set_policies([("login", policy)])),
        error
    );
}

/// A memory that has features under `sliding_window` alone.
struct Partial(MemoryStore);

impl Store for Partial {
    fn inner(&self) -> Option<&dyn Store> {
        Some(&self.0)
    }

    forward!(0: acquire, peek, reset);

    fn capabilities(&self) -> Capabilities {
        use Feature::{ActualCost, Block, Concurrent, GrowingBlock, Limits, Refund, Reserve};
        Capabilities::none()
            .with(Algorithm::FixedWindow, &[])
            .with(Algorithm::LeakyBucket, &[Reserve])
            .with(
                Algorithm::SlidingWindow,
                &[
                    ActualCost,
                    Block,
                    Concurrent,
                    GrowingBlock,
                    Limits,
                    Refund,
                    Reserve,
                ],
            )
    }
}

type Outcome = Result<(), RateLimitError>;

macro_rules! policed {
    ($($name:ident: $($argument:ident = $value:expr),*;)*) => {$(
        #[rate_limit(
            limiter = limiter,
            policy = "shared",
            name = "policed",
            $($argument = $value),*
        )]
        async fn $name(limiter: &RateLimiter) -> Outcome {
            let _ = limiter;
            Ok(())
        }
    )*};
}

policed! {
    plain: timeout = "1s";
    counts: count = "err";
    counts_late: cost = 1, actual_cost = |out: &Outcome| u64::from(out.is_ok());
    in_flight: concurrent = 5;
    waits: wait = "1s";
    takes_ahead: prefetch = "1s";
}

/// Each policy with each kind of rule.
#[tokio::test]
async fn a_policy_that_a_rule_in_use_cannot_have_is_refused_when_it_is_set() {
    const POLICIES: [&str; 11] = [
        "sliding_window 9/1m",
        "fixed_window 9/1m",
        "leaky_bucket 9/1m",
        "sliding_window 9/1m block 1m",
        "sliding_window 9/1m block 1m wait 0s prefetch 0s",
        "sliding_window 9/1m concurrent 5",
        "sliding_window 9/1m lease 9s",
        "sliding_window 9/1m wait 1s",
        "sliding_window 9/1m prefetch 1s",
        "sliding_window 9/1s",
        "sliding_window 9/1m shadow timeout 9ms on_unavailable deny",
    ];
    /// The policies that a rule cannot have, and the setting that its mistake names.
    type Mistakes = &'static [(usize, &'static str)];
    const FIVE: (usize, &str) = (5, "`concurrent`");
    const SIX: (usize, &str) = (6, "`concurrent`");
    const RULES: [(&str, Mistakes); 6] = [
        ("plain", &[FIVE, SIX]),
        ("counts", &[(1, "`count`"), FIVE, SIX, (8, "`prefetch`")]),
        (
            "counts_late",
            &[
                (1, "`count`"),
                (2, "`actual_cost`"),
                FIVE,
                SIX,
                (8, "`prefetch`"),
            ],
        ),
        ("in_flight", &[(1, "`concurrent`"), (2, "`concurrent`")]),
        ("waits", &[(3, "`wait"), FIVE, SIX]),
        (
            "takes_ahead",
            &[(3, "`prefetch"), FIVE, SIX, (9, "`prefetch`")],
        ),
    ];
    for (rule, mistakes) in RULES {
        for (at, text) in POLICIES.iter().enumerate() {
            let limiter = RateLimiter::with_store(Partial(MemoryStore::new()));
            let set = |text: &str| limiter.set_policies([("shared", text.parse().unwrap())]);
            let call = async || match rule {
                "plain" => plain(&limiter).await,
                "counts" => counts(&limiter).await,
                "counts_late" => counts_late(&limiter).await,
                "in_flight" => in_flight(&limiter).await,
                "waits" => waits(&limiter).await,
                _ => takes_ahead(&limiter).await,
            };
            let mistake = mistakes.iter().find(|(policy, _)| *policy == at);
            let context = format!("{rule} under {text}");
            // Known when the rule is first met.
            set(text).unwrap();
            let first = call().await;
            assert_eq!(first.is_err(), mistake.is_some(), "{context}: {first:?}");
            // Known when the policy is set.
            set(POLICIES[0]).unwrap();
            call().await.unwrap();
            let outcome = set(text);
            assert_eq!(outcome.is_err(), mistake.is_some(), "{context}");
            if let Some((_, setting)) = mistake {
                for error in [misconfigured(first), misconfigured(outcome)] {
                    assert!(
                        error.contains("`policed`") && error.contains(setting),
                        "{context}: {error}"
                    );
                }
            }
            call().await.unwrap();
        }
    }
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
