//! What a rule says of units that are taken ahead: what the store is told of it, what a decision
//! that comes of it is, and where it is a mistake.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ratelimit_runtime::store::{Answer, Request, Verdict};
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{
    Algorithm, Decision, Key, Limit, MemoryStore, Policy, RateLimitError, RateLimiter, Rule,
    Source, Store, rate_limit,
};

use crate::Outcome;
use crate::support::layer::forward;

const LEASE: Duration = Duration::from_millis(100);

/// A layer that notes for how long units may be taken ahead, and says of its answers that they were
/// known, if it `knows`.
#[derive(Default)]
struct Ahead {
    store: MemoryStore,
    knows: AtomicBool,
    leases: Mutex<Vec<Duration>>,
}

impl Store for Ahead {
    fn inner(&self) -> Option<&dyn Store> {
        Some(&self.store)
    }

    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        self.leases.lock().unwrap().push(request.prefetch());
        Answer::later(async move {
            let mut verdict = self.store.acquire(request).await?;
            verdict.cached = self.knows.load(Ordering::SeqCst);
            Ok(verdict)
        })
    }

    forward!(store: peek, reset);
}

impl Ahead {
    fn asked(&self) -> Vec<Duration> {
        std::mem::take(&mut self.leases.lock().unwrap())
    }
}

fn limiter() -> (RateLimiter, Arc<Ahead>) {
    let store = Arc::new(Ahead::default());
    (RateLimiter::with_store(store.clone()), store)
}

#[rate_limit(key = "<user>", limits = ["9/5s", "99/1d"], prefetch = "100ms")]
async fn search(user: &str) -> Outcome {
    let _ = user;
    Ok(())
}

#[tokio::test]
async fn a_store_is_told_the_lease_of_a_call_that_reserves_nothing() {
    let (limiter, store) = limiter();
    limiter.scope(search("alice")).await.unwrap();
    assert_eq!(store.asked(), [LEASE]);

    let plain = Rule::new("plain", Limit::per_minute(9));
    let ahead = plain.clone().with_prefetch(LEASE);
    for (rule, lease) in [
        (plain.clone(), Duration::ZERO),
        (ahead.clone(), LEASE),
        (ahead.with_max(7).with_cost(2), LEASE),
        (ahead.clone().with_shadow(true), LEASE),
        (ahead.clone().with_prefetch(Duration::ZERO), Duration::ZERO),
    ] {
        assert!(limiter.acquire(&rule, &Key::of("alice")).await.is_ok());
        assert_eq!(store.asked(), [lease]);
    }
    // Who reserves settles with the store.
    drop(limiter.reserve(&ahead, &Key::of("alice")).await.unwrap());
    assert_eq!(store.asked(), [Duration::ZERO]);
}

#[tokio::test]
async fn a_policy_switches_it_on_and_off_and_changes_it() {
    let (limiter, store) = limiter();
    let rule = |name| Rule::new(name, Limit::per_second(1)).with_policy("search");
    let (plain, ahead) = (rule("plain"), rule("ahead").with_prefetch(LEASE));
    let policy = || Policy::new(Limit::per_minute(9));
    for (policy, of_plain, of_ahead) in [
        (policy(), Duration::ZERO, LEASE),
        (policy().with_prefetch(LEASE * 2), LEASE * 2, LEASE * 2),
        (
            policy().with_prefetch(Duration::ZERO),
            Duration::ZERO,
            Duration::ZERO,
        ),
    ] {
        limiter.set_policies([("search", policy)]).unwrap();
        for (rule, lease) in [(&plain, of_plain), (&ahead, of_ahead)] {
            assert!(limiter.acquire(rule, &Key::of("alice")).await.is_ok());
            assert_eq!(store.asked(), [lease]);
        }
    }
}

#[tokio::test]
async fn an_admission_that_was_known_is_a_grant_and_can_be_refunded() {
    let (limiter, store) = limiter();
    let rule = Rule::new("known", Limit::per_minute(1)).with_prefetch(LEASE);
    store.knows.store(true, Ordering::SeqCst);
    let admitted = limiter.acquire(&rule, &Key::of("alice")).await.unwrap();
    assert_eq!(admitted.source(), Source::Grant);
    assert!(!admitted.is_degraded());
    let refused = limiter.acquire(&rule, &Key::of("alice")).await.unwrap_err();
    assert_eq!(
        refused.decision().map(Decision::source),
        Some(Source::DenyCache)
    );
    for given_back in [true, false] {
        assert_eq!(
            limiter
                .refund(&rule, &Key::of("alice"), &admitted)
                .await
                .unwrap(),
            given_back
        );
    }
    assert!(limiter.acquire(&rule, &Key::of("alice")).await.is_ok());
}

#[tokio::test]
async fn a_lease_that_cannot_be_is_a_mistake() {
    let (limiter, store) = limiter();
    let rule = || Rule::new("mistaken", Limit::per_hour(9)).and(Limit::per_second(5));
    let minute = Duration::from_secs(60);
    for (rule, why) in [
        (rule().with_prefetch(LEASE / 11), "from \"10ms\" to \"10s\""),
        (
            Rule::new("mistaken", Limit::per_hour(9)).with_prefetch(LEASE * 101),
            "from \"10ms\" to \"10s\"",
        ),
        (rule().with_prefetch(LEASE), "write at most \"20ms\""),
        (
            rule()
                .and(Limit::new(1, LEASE * 4))
                .with_prefetch(LEASE / 10),
            "no window may be below 500ms",
        ),
        (
            rule().with_prefetch(LEASE / 5).with_block(minute),
            "leave `prefetch` out, or `block`",
        ),
        (
            rule()
                .with_growing_block(minute, minute * 2)
                .with_prefetch(LEASE / 5),
            "leave `prefetch` out, or `block`",
        ),
    ] {
        for _ in 0..2 {
            let error = limiter.acquire(&rule, &Key::global()).await.unwrap_err();
            let words = error.to_string();
            assert!(matches!(error, RateLimitError::Misconfigured(_)), "{words}");
            assert!(
                words.contains("the rule `mistaken`: ") && words.contains(why),
                "{words}"
            );
        }
    }
    let in_flight = Rule::in_flight("in_flight", 5).with_prefetch(LEASE);
    let error = limiter.enter(&in_flight, &Key::global()).await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("of calls in flight none is taken ahead"),
        "{error}"
    );
    assert_eq!(store.asked(), [Duration::ZERO; 0]);
    // Made of one that the limiter has met.
    let longest = rule().with_prefetch(LEASE / 5);
    assert!(limiter.acquire(&longest, &Key::global()).await.is_ok());
    let longer = longest.clone().with_prefetch(LEASE);
    assert!(limiter.acquire(&longer, &Key::global()).await.is_err());
}

/// The decisions on calls of these costs, each so long after the one before.
async fn decisions(rule: &Rule, calls: &[(u64, Duration)]) -> Vec<Decision> {
    let clock = FakeClock::new();
    let limiter = RateLimiter::with_store(MemoryStore::new().with_clock(clock.clone()));
    let mut decisions = Vec::new();
    for (cost, after) in calls {
        clock.advance(*after);
        let decided = limiter
            .acquire(&rule.with_cost(*cost), &Key::of("alice"))
            .await;
        decisions.push(match decided {
            Err(RateLimitError::Exceeded(decision)) => decision,
            decided => decided.unwrap(),
        });
    }
    decisions
}

#[tokio::test]
async fn in_memory_it_changes_no_decision() {
    let calls: Vec<_> = (0..200)
        .map(|call| (1 + call % 3, Duration::from_millis(call * 37 % 400)))
        .collect();
    for algorithm in Algorithm::ALL {
        let plain = Rule::new("memory", Limit::per_second(5))
            .and(Limit::per_minute(60))
            .with_algorithm(*algorithm);
        let ahead = plain.clone().with_prefetch(LEASE / 5);
        let (without, with) = (
            decisions(&plain, &calls).await,
            decisions(&ahead, &calls).await,
        );
        assert_eq!(without, with, "{algorithm}");
        let refused = with
            .iter()
            .filter(|decision| !decision.is_allowed())
            .count();
        assert!((20..180).contains(&refused), "{algorithm}: {refused}");
        assert!(
            with.iter()
                .all(|decision| decision.source() == Source::Store)
        );
    }
}
