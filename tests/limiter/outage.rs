//! Answers of a check, and their deadlines, while its store gives none.

#![allow(clippy::unused_async, reason = "the attribute awaits")]

use std::future::Future;
use std::time::Duration;

use crate::support::redis::RedisServer;
use ratelimit_runtime::store::StoreErrorKind;
use ratelimit_runtime::testkit::FaultyStore;
use ratelimit_runtime::{
    Decision, Key, Limit, MemoryStore, OnUnavailable, RateLimitError, RateLimiter, Rule, Source,
    rate_limit,
};
use tokio::time::{Instant, sleep, timeout};

use OnUnavailable::{Allow, Deny, Local};

type Outcome = Result<(), RateLimitError>;

/// The resolution of timers.
const SLACK: Duration = Duration::from_millis(2);
/// What a fault may take to heal. Far above what it takes.
const PATIENCE: Duration = Duration::from_secs(10);

static RULE: Rule = Rule::new("outage", Limit::per_hour(1_000));

/// The answer to one check, which must come by the deadline.
async fn in_time<T>(deadline: Duration, check: impl Future<Output = T>) -> T {
    let start = Instant::now();
    let answer = timeout(PATIENCE, check)
        .await
        .unwrap_or_else(|_| panic!("no answer after {PATIENCE:?}"));
    let took = start.elapsed();
    assert!(
        took <= deadline + SLACK,
        "took {took:?} with a deadline of {deadline:?}"
    );
    answer
}

fn assert_let_through(answer: Result<Decision, RateLimitError>) {
    let decision = answer.unwrap();
    assert!(
        decision.is_allowed() && decision.is_degraded(),
        "{decision:?}"
    );
    // While the server counts as up, a call that is not answered is judged by this
    // process.
    assert!(
        matches!(decision.source(), Source::Nobody | Source::Fallback),
        "{decision:?}"
    );
    assert_eq!((decision.limit(), decision.rule()), (1_000, "outage"));
}

fn assert_unavailable<T: std::fmt::Debug>(answer: Result<T, RateLimitError>) {
    let error = answer.unwrap_err();
    assert!(matches!(error, RateLimitError::Unavailable(_)), "{error:?}");
    assert_eq!(error.retry_after(), None);
    assert!(error.decision().is_none());
}

/// A call that was queued without a connection and sent with the next one would be counted after
/// its answer.
#[tokio::test]
async fn calls_of_an_outage_are_not_replayed_after_it() {
    let mut server = RedisServer::start();
    let limiter = RateLimiter::builder()
        .redis(&server.url())
        .on_unavailable(Allow)
        .build()
        .unwrap();
    timeout(PATIENCE, limiter.ready()).await.unwrap().unwrap();
    server.stop();
    for _ in 0..100 {
        assert_let_through(limiter.acquire(&RULE, &Key::global()).await);
    }
    server.restart();
    timeout(PATIENCE, limiter.ready()).await.unwrap().unwrap();
    sleep(Duration::from_millis(50)).await;
    assert_eq!(
        limiter
            .peek(&RULE, &Key::global())
            .await
            .unwrap()
            .remaining(),
        1_000
    );
}

mod attributes {
    use super::*;

    #[rate_limit(window = "1h", max = 5, on_unavailable = "allow", timeout = "50ms")]
    pub(super) async fn open() -> Outcome {
        Ok(())
    }

    #[rate_limit(window = "1h", max = 5, on_unavailable = "deny", timeout = "50ms")]
    pub(super) async fn closed() -> Outcome {
        Ok(())
    }

    #[rate_limit(window = "1h", max = 5)]
    pub(super) async fn as_the_limiter() -> Outcome {
        Ok(())
    }

    #[rate_limit(window = "1h", max = 5, timeout = "400ms", on_unavailable = "deny")]
    pub(super) async fn patient() -> Outcome {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn attributes_have_policies_and_deadlines_of_their_own() {
    const OWN: Duration = Duration::from_millis(50);
    let store = FaultyStore::new(MemoryStore::new());
    // A limiter whose own deadline would be noticed.
    let builder = RateLimiter::builder()
        .store(store.clone())
        .timeout(Duration::from_secs(5));
    let limiter = builder.on_unavailable(Deny).build().unwrap();
    store.hang();
    let scenario = async {
        let start = Instant::now();
        in_time(OWN, attributes::open()).await.unwrap();
        assert!(start.elapsed() >= OWN, "it was given its time");
        assert_unavailable(in_time(OWN, attributes::closed()).await);
        let start = Instant::now();
        assert_unavailable(in_time(Duration::from_millis(400), attributes::patient()).await);
        assert!(start.elapsed() >= Duration::from_millis(400));
        store.fail();
        in_time(Duration::ZERO, attributes::open()).await.unwrap();
        assert_unavailable(in_time(Duration::ZERO, attributes::closed()).await);
        assert_unavailable(in_time(Duration::ZERO, attributes::as_the_limiter()).await);
        // And all of them limit when the store is back: what was let through was not charged.
        store.heal();
        for _ in 0..5 {
            attributes::open().await.unwrap();
        }
        let refused = attributes::open().await.unwrap_err();
        assert!(
            matches!(refused, RateLimitError::Exceeded(_)),
            "{refused:?}"
        );
    };
    limiter.scope(scenario).await;
    assert_eq!(store.calls(), 3 + 3 + 6, "every check asks once");
}

// A mistake is no outage: no policy lets its calls through.

fn assert_misconfigured(answer: Result<Decision, RateLimitError>, expected: &str) {
    let error = answer.unwrap_err();
    assert!(
        matches!(error, RateLimitError::Misconfigured(_)),
        "{error:?}"
    );
    assert!(error.to_string().contains(expected), "{error}");
    assert_eq!(error.retry_after(), None, "waiting does not help");
}

/// `local`: the limit goes on in this process, in bounded memory, and the store takes over again by
/// itself.
#[tokio::test]
async fn local_goes_on_limiting_in_this_process() {
    let store = FaultyStore::new(MemoryStore::new());
    let limiter = RateLimiter::builder()
        .store(store.clone())
        .on_unavailable(Local)
        .build()
        .unwrap();
    let rule = Rule::new("local", Limit::per_hour(3));
    assert!(
        !limiter
            .acquire(&rule, &Key::of("a"))
            .await
            .unwrap()
            .is_degraded()
    );
    for kind in [StoreErrorKind::Unavailable, StoreErrorKind::Full] {
        store.fail_with(kind);
        let key = Key::of(&format!("{kind:?}"));
        for left in [2, 1, 0] {
            let decision = limiter.acquire(&rule, &key).await.unwrap();
            assert!(
                decision.is_degraded() && decision.source() == Source::Fallback,
                "{decision:?}"
            );
            assert_eq!(decision.remaining(), left);
        }
        let refused = limiter.acquire(&rule, &key).await.unwrap_err();
        assert!(
            refused.retry_after().unwrap() > Duration::ZERO,
            "{refused:?}"
        );
        assert!(refused.decision().unwrap().is_degraded());
        assert!(!limiter.peek(&rule, &key).await.unwrap().is_allowed());
        store.heal();
        assert_eq!(
            limiter.acquire(&rule, &key).await.unwrap().remaining(),
            2,
            "the store knows nothing of it"
        );
    }
    store.fail_with(StoreErrorKind::Misconfigured);
    assert_misconfigured(limiter.acquire(&rule, &Key::of("a")).await, "misconfigured");
}

#[tokio::test]
async fn stacked_limits_are_charged_all_or_none_by_local_too() {
    #[rate_limit(
        key = "<user>",
        window = "1h",
        max = 5,
        on_unavailable = "local",
        name = "by user"
    )]
    #[rate_limit(
        key = "<ip>",
        window = "1h",
        max = 1,
        on_unavailable = "local",
        name = "by ip"
    )]
    async fn call(user: &str, ip: &str) -> Result<(), RateLimitError> {
        let _ = (user, ip);
        Ok(())
    }

    let store = FaultyStore::new(MemoryStore::new());
    let limiter = RateLimiter::with_store(store.clone());
    store.fail();
    let scenario = async {
        assert!(call("a", "1").await.is_ok());
        for _ in 0..9 {
            assert!(matches!(
                call("a", "1").await,
                Err(RateLimitError::Exceeded(_))
            ));
        }
        for ip in ["2", "3", "4", "5"] {
            assert!(
                call("a", ip).await.is_ok(),
                "a refusal by ip was charged to the user"
            );
        }
        assert!(call("a", "6").await.is_err());
    };
    limiter.scope(scenario).await;
}

#[tokio::test]
async fn each_kind_of_failure_has_its_answer_under_each_policy() {
    let store = FaultyStore::new(MemoryStore::new());
    let limiter = RateLimiter::with_store(store.clone());
    for policy in [Allow, Deny] {
        let rule = RULE.clone().with_on_unavailable(policy);
        let kinds = [
            StoreErrorKind::Unavailable,
            StoreErrorKind::TimedOut,
            StoreErrorKind::Full,
            StoreErrorKind::Misconfigured,
            StoreErrorKind::Unsupported,
        ];
        for kind in kinds {
            store.fail_with(kind);
            let answer = limiter.acquire(&rule, &Key::global()).await;
            match (kind, policy) {
                (
                    StoreErrorKind::Unavailable | StoreErrorKind::TimedOut | StoreErrorKind::Full,
                    Allow,
                ) => {
                    let is_checked = answer.as_ref().unwrap().source() == Source::Fallback;
                    // Such a store says of itself that it is down.
                    assert_eq!(is_checked, kind == StoreErrorKind::Full);
                    assert_let_through(answer);
                }
                (
                    StoreErrorKind::Unavailable | StoreErrorKind::TimedOut | StoreErrorKind::Full,
                    _,
                ) => {
                    assert_unavailable(answer);
                }
                _ => assert_misconfigured(answer, "misconfigured"),
            }
        }
    }
}

/// Both say that the store was not reached, and change what this process answers by meanwhile.
#[tokio::test(start_paused = true)]
async fn reset_and_unblock_in_an_outage_are_for_this_process() {
    static LOGIN: Rule =
        Rule::new("login", Limit::per_hour(1)).with_block(Duration::from_secs(7_200));
    let store = FaultyStore::new(MemoryStore::new());
    let limiter = RateLimiter::builder()
        .store(store.clone())
        .on_unavailable(Local)
        .build()
        .unwrap();
    let alice = Key::of("alice");
    store.fail();
    let attempt = || limiter.acquire(&LOGIN, &alice);
    let blocked = async || {
        attempt()
            .await
            .unwrap_err()
            .decision()
            .unwrap()
            .is_blocked()
    };
    assert!(attempt().await.is_ok() && blocked().await);
    let error = limiter.unblock(&LOGIN, &alice).await.unwrap_err();
    assert!(matches!(error, RateLimitError::Unavailable(_)), "{error:?}");
    assert!(
        !limiter
            .peek(&LOGIN, &alice)
            .await
            .is_ok_and(|decision| decision.is_blocked()),
        "the block is over"
    );
    assert!(attempt().await.is_err(), "what was charged stays");
    let error = limiter.reset(&LOGIN, &alice).await.unwrap_err();
    assert!(matches!(error, RateLimitError::Unavailable(_)), "{error:?}");
    assert_eq!(attempt().await.unwrap().source(), Source::Fallback);
    // The store knows nothing of all that.
    store.heal();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(attempt().await.unwrap().source(), Source::Store);
}

/// What has counted since is not in the store.
#[tokio::test]
async fn a_reset_after_an_outage_says_what_this_process_has_counted() {
    let store = FaultyStore::new(MemoryStore::new());
    let limiter = RateLimiter::builder()
        .store(store.clone())
        .on_unavailable(Local)
        .build()
        .unwrap();
    store.fail();
    let counted = limiter.acquire(&RULE, &Key::global()).await.unwrap();
    assert_eq!(counted.source(), Source::Fallback);
    store.heal();
    assert!(limiter.reset(&RULE, &Key::global()).await.unwrap());
    assert!(!limiter.reset(&RULE, &Key::global()).await.unwrap());
}
