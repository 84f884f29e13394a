//! Costs that are known afterwards: an estimate is settled however its call ends.

use std::future::{pending, ready};
use std::time::Duration;

use futures_util::FutureExt as _;
use ratelimit_runtime::observe::collect;
use ratelimit_runtime::store::StoreError;
use ratelimit_runtime::testkit::FaultyStore;
use ratelimit_runtime::{
    Key, Limit, MemoryStore, OnUnavailable, RateLimitError, RateLimiter, Rule, rate_limit,
};

/// The rule of [`complete`], by hand.
static TOKENS: Rule = Rule::new("tokens", Limit::per_minute(100));

/// How a call of [`complete`] ends.
#[derive(Clone, Copy)]
enum Ends {
    With(u64),
    Fails,
    Never,
    Panics,
}

#[rate_limit(
    limiter = limiter, name = "tokens", key = "<user>", window = "60s", max = 100,
    cost = estimate, actual_cost = |out| out.as_ref().map_or(0, |tokens| *tokens),
)]
async fn complete(
    limiter: &RateLimiter,
    user: &str,
    estimate: u64,
    ends: Ends,
) -> Result<u64, RateLimitError> {
    match ends {
        Ends::With(tokens) => ready(Ok(tokens)).await,
        Ends::Fails => Err(RateLimitError::Unavailable(StoreError::unavailable(
            "no model",
        ))),
        Ends::Never => pending().await,
        Ends::Panics => panic!("the body has a defect"),
    }
}

async fn left(limiter: &RateLimiter, user: &str) -> u64 {
    limiter
        .peek(&TOKENS, &Key::of(user))
        .await
        .unwrap()
        .remaining()
}

#[tokio::test]
async fn actual_cost_is_taken_from_the_result() {
    let limiter = RateLimiter::memory();
    assert!(complete(&limiter, "less", 30, Ends::With(10)).await.is_ok());
    assert_eq!(left(&limiter, "less").await, 90);
    assert!(complete(&limiter, "more", 30, Ends::With(70)).await.is_ok());
    assert_eq!(left(&limiter, "more").await, 30);
    assert!(complete(&limiter, "failed", 30, Ends::Fails).await.is_err());
    assert_eq!(
        left(&limiter, "failed").await,
        100,
        "the closure says that a failure costs nothing"
    );
    assert!(
        complete(&limiter, "nothing", 0, Ends::With(40))
            .await
            .is_ok()
    );
    assert_eq!(
        left(&limiter, "nothing").await,
        60,
        "an estimate of 0 is one of 1"
    );
}

#[tokio::test]
async fn a_call_that_is_dropped_or_panics_is_charged_the_estimate() {
    let limiter = RateLimiter::memory();
    assert!(
        complete(&limiter, "dropped", 30, Ends::Never)
            .now_or_never()
            .is_none()
    );
    assert_eq!(left(&limiter, "dropped").await, 70);
    let panicking = tokio::spawn({
        let limiter = limiter.clone();
        async move { complete(&limiter, "panicked", 30, Ends::Panics).await }
    });
    assert!(panicking.await.unwrap_err().is_panic());
    assert_eq!(left(&limiter, "panicked").await, 70);
}

#[tokio::test(start_paused = true)]
async fn by_hand_a_reservation_is_committed_or_released_once() {
    let limiter = RateLimiter::memory();
    let (rule, key) = (TOKENS.with_cost(40), Key::of("a"));
    let reservation = limiter.reserve(&rule, &key).await.unwrap();
    assert_eq!(
        (
            reservation.decision().remaining(),
            left(&limiter, "a").await
        ),
        (60, 60)
    );
    reservation.commit(15);
    assert_eq!(left(&limiter, "a").await, 85);
    limiter.reserve(&rule, &key).await.unwrap().release();
    assert_eq!(left(&limiter, "a").await, 85);
    drop(limiter.reserve(&rule, &key).await.unwrap());
    assert_eq!(
        left(&limiter, "a").await,
        45,
        "a dropped reservation costs its estimate"
    );
    assert!(matches!(
        limiter.reserve(&TOKENS.with_cost(46), &key).await,
        Err(RateLimitError::Exceeded(_))
    ));

    let late = limiter.reserve(&TOKENS.with_cost(5), &key).await.unwrap();
    tokio::time::advance(Duration::from_secs(61)).await;
    assert_eq!(left(&limiter, "a").await, 100);
    late.commit(30);
    assert_eq!(left(&limiter, "a").await, 70, "a long call is not free");
}

#[rate_limit(
    limiter = limiter, name = "minute", window = "60s", max = 100, cost = 10,
    actual_cost = |n| *n.as_ref().unwrap_or(&0)
)]
#[rate_limit(limiter = limiter, name = "failures", window = "1h", max = 2, count = "err")]
#[rate_limit(limiter = limiter, name = "calls", window = "1h", max = 3)]
#[rate_limit(
    limiter = limiter, name = "seen", window = "60s", max = 5, cost = 5, actual_cost = tokens,
    shadow
)]
#[rate_limit(
    limiter = limiter, name = "guests", window = "60s", max = 5, cost = 5, actual_cost = tokens,
    when = guest
)]
async fn stacked(
    limiter: &RateLimiter,
    guest: bool,
    tokens_used: u64,
) -> Result<u64, RateLimitError> {
    ready(Ok(tokens_used)).await
}

#[allow(clippy::ref_option_ref, reason = "what the attribute hands on")]
fn tokens(outcome: &Result<u64, RateLimitError>) -> u64 {
    *outcome.as_ref().unwrap_or(&0)
}

#[tokio::test]
async fn in_a_stack_each_rule_settles_its_own_cost() {
    let limiter = RateLimiter::memory();
    assert!(stacked(&limiter, false, 4).await.is_ok());
    assert!(stacked(&limiter, true, 3).await.is_ok());
    let left = async |name: &'static str, limit: Limit| {
        limiter
            .peek(&Rule::new(name, limit), &Key::global())
            .await
            .unwrap()
            .remaining()
    };
    assert_eq!(left("minute", Limit::per_minute(100)).await, 93);
    assert_eq!(left("failures", Limit::per_hour(2)).await, 2);
    assert_eq!(left("calls", Limit::per_hour(3)).await, 1);
    assert_eq!(
        left("seen", Limit::per_minute(5)).await,
        1,
        "a call that would have been refused reserves nothing"
    );
    assert_eq!(left("guests", Limit::per_minute(5)).await, 2);
}

#[rate_limit(
    limiter = limiter, name = "waits", window = "60s", max = 100, cost = 60, wait = "10s",
    actual_cost = |out| out.as_ref().map_or(0, |tokens| *tokens),
)]
async fn waits(limiter: &RateLimiter, running: Option<u64>) -> Result<u64, RateLimitError> {
    match running {
        Some(tokens) => Ok(tokens),
        None => pending().await,
    }
}

/// It leaves the window in a minute; that its call may end before, and give it back, is not known.
#[tokio::test(start_paused = true)]
async fn nobody_waits_for_an_open_estimate_that_outlasts_the_wait() {
    let limiter = RateLimiter::memory();
    let mut open = Box::pin(waits(&limiter, None));
    assert!(open.as_mut().now_or_never().is_none());
    let start = tokio::time::Instant::now();
    let refused = waits(&limiter, Some(1)).await.unwrap_err();
    let wait = refused.retry_after().unwrap();
    // Of its units, each of which has a microsecond of its own, twenty have to leave.
    assert_eq!(wait, Duration::from_micros(60_000_019));
    assert_eq!(start.elapsed(), Duration::ZERO);
    drop(open);
    tokio::time::advance(Duration::from_secs(55)).await;
    assert_eq!(waits(&limiter, Some(1)).await.unwrap(), 1);
    assert_eq!(start.elapsed().as_secs(), 60);
}

/// The header fields and the log tell of the estimate: the cost is not known when they are written.
#[tokio::test]
async fn the_decision_is_that_on_the_estimate() {
    let limiter = RateLimiter::memory();
    let (outcome, collected) = collect(complete(&limiter, "a", 30, Ends::With(70))).await;
    assert!(outcome.is_ok());
    let remaining: Vec<_> = collected
        .iter()
        .map(|observation| observation.decision().remaining())
        .collect();
    assert_eq!(remaining, [70]);
}

#[tokio::test]
async fn the_fallback_keeps_estimates_and_costs_as_the_store_does() {
    let faults = FaultyStore::new(MemoryStore::new());
    let limiter = RateLimiter::builder()
        .store(faults.clone())
        .on_unavailable(OnUnavailable::Local)
        .build()
        .unwrap();
    assert!(complete(&limiter, "a", 30, Ends::With(70)).await.is_ok());
    faults.fail();
    assert!(complete(&limiter, "a", 30, Ends::With(80)).await.is_ok());
    let during = limiter.peek(&TOKENS, &Key::of("a")).await.unwrap();
    assert_eq!((during.is_degraded(), during.remaining()), (true, 20));
    faults.heal();
    assert_eq!(left(&limiter, "a").await, 30);
}
