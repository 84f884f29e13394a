//! Answers while the store gives none.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratelimit_runtime::store::{Answer, Request, Verdict};
use ratelimit_runtime::testkit::FaultyStore;
use ratelimit_runtime::{
    Algorithm, Key, Limit, MemoryStore, OnUnavailable, RateLimitError, RateLimiter, Rule, Source,
    Store,
};

use crate::Flooded;
use crate::support::deny_cache::DenyCache;
use crate::support::layer::forward;

fn on(store: &FaultyStore<MemoryStore>, policy: OnUnavailable) -> RateLimiter {
    RateLimiter::builder()
        .store(store.clone())
        .on_unavailable(policy)
        .build()
        .unwrap()
}

/// 30,000 guesses at once must not get through because 30,000 are too many for the server.
#[tokio::test]
async fn a_late_store_admits_no_more_than_the_limit() {
    for policy in [OnUnavailable::Allow, OnUnavailable::Local] {
        let builder = RateLimiter::builder()
            .store(Flooded)
            .timeout(Duration::from_millis(20));
        let limiter = builder.on_unavailable(policy).build().unwrap();
        let rule = Rule::new("guess", Limit::per_hour(5));
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..1_000 {
            let (limiter, rule) = (limiter.clone(), rule.clone());
            tasks.spawn(async move { limiter.acquire(&rule, &Key::of("alice")).await });
        }
        let answers = tasks.join_all().await;
        let admitted: Vec<_> = answers.iter().flatten().collect();
        assert_eq!(admitted.len(), 5, "{policy}");
        assert!(
            admitted
                .iter()
                .all(|decision| decision.source() == Source::Fallback)
        );
    }
    let closed = RateLimiter::builder()
        .store(Flooded)
        .timeout(Duration::from_millis(20));
    let closed = closed.on_unavailable(OnUnavailable::Deny).build().unwrap();
    let error = closed
        .acquire(&Rule::new("guess", Limit::per_hour(5)), &Key::of("alice"))
        .await
        .unwrap_err();
    assert!(matches!(error, RateLimitError::Unavailable(_)), "{error:?}");
}

/// A store that decides at once, and whose replies no loaded process reads in time.
struct Unread {
    memory: MemoryStore,
    is_loaded: AtomicBool,
}

impl Store for Unread {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        let is_loaded = self.is_loaded.load(Ordering::Relaxed);
        Answer::later(async move {
            let verdict = self.memory.acquire(request).await;
            if is_loaded { pending().await } else { verdict }
        })
    }

    forward!(memory: peek, reset);
}

/// With N processes, late replies let through N + 1 times the limit, and no more however often they
/// come.
#[tokio::test]
async fn late_replies_add_a_limit_for_each_process() {
    const MAX: usize = 5;
    for (policy, times) in [
        (OnUnavailable::Local, 4),
        (OnUnavailable::Allow, 4),
        (OnUnavailable::Deny, 1),
    ] {
        let store = Arc::new(Unread {
            memory: MemoryStore::new(),
            is_loaded: AtomicBool::new(false),
        });
        let process = || {
            let builder = RateLimiter::builder().store(Arc::clone(&store));
            let builder = builder.timeout(Duration::from_millis(20));
            builder.on_unavailable(policy).build().unwrap()
        };
        let processes = [process(), process(), process()];
        let rule = Rule::new("guess", Limit::per_hour(5));
        let mut admitted = 0;
        for is_loaded in [false, true, false, true] {
            store.is_loaded.store(is_loaded, Ordering::Relaxed);
            for limiter in &processes {
                let mut calls = tokio::task::JoinSet::new();
                for _ in 0..2 * MAX {
                    let (limiter, rule) = (limiter.clone(), rule.clone());
                    calls.spawn(async move { limiter.acquire(&rule, &Key::global()).await });
                }
                let answers = calls.join_all().await;
                admitted += answers.iter().filter(|answer| answer.is_ok()).count();
            }
        }
        assert_eq!(admitted, times * MAX, "{policy}");
    }
}

/// The caller that asks the store again is refused like the others.
#[tokio::test(start_paused = true)]
async fn a_refusal_that_still_holds_answers_where_the_store_does_not() {
    for policy in [
        OnUnavailable::Allow,
        OnUnavailable::Local,
        OnUnavailable::Deny,
    ] {
        let store = FaultyStore::new(MemoryStore::new());
        let all = RateLimiter::builder()
            .store(DenyCache::new(store.clone()))
            .on_unavailable(policy);
        let limiter = all.timeout(Duration::from_millis(20)).build().unwrap();
        let hourly = Rule::new("hourly", Limit::per_hour(1));
        let blocked = Rule::new("blocked", Limit::per_hour(1)).with_block(Duration::from_secs(600));
        let waiting = hourly.clone().with_wait(Duration::from_millis(5));
        let key = Key::global();
        for rule in [&hourly, &blocked] {
            let _ = (
                limiter.acquire(rule, &key).await.unwrap(),
                limiter.acquire(rule, &key).await.unwrap_err(),
            );
        }
        // Refusals hold for a second. Near its end one caller asks again.
        tokio::time::advance(Duration::from_millis(900)).await;
        store.hang();
        for rule in [&hourly, &blocked, &waiting] {
            let error = limiter.acquire(rule, &key).await.unwrap_err();
            let refusal = error
                .decision()
                .unwrap_or_else(|| panic!("{policy}, {rule:?}: {error:?}"));
            assert_eq!(refusal.source(), Source::DenyCache, "{policy}, {rule:?}");
        }
        // A block holds for as long as the store is away.
        tokio::time::advance(Duration::from_secs(5)).await;
        assert!(
            limiter
                .acquire(&blocked, &key)
                .await
                .unwrap_err()
                .decision()
                .unwrap()
                .is_blocked(),
            "{policy}"
        );
        assert!(
            limiter.peek(&blocked, &key).await.unwrap().is_blocked(),
            "{policy}"
        );
        let other = limiter.acquire(&hourly, &key).await;
        assert!(
            other.is_ok_and(|decision| decision.is_degraded()) || policy == OnUnavailable::Deny,
            "{policy}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_block_set_during_an_outage_goes_on_refusing_after_it() {
    let store = FaultyStore::new(MemoryStore::new());
    let limiter = on(&store, OnUnavailable::Local);
    let rule = Rule::new("blocked", Limit::per_second(1)).with_block(Duration::from_secs(600));
    let (alice, bob) = (Key::of("alice"), Key::of("bob"));
    store.fail();
    let _ = limiter.acquire(&rule, &alice).await.unwrap();
    for (heals, source) in [(false, Source::Fallback), (true, Source::DenyCache)] {
        if heals {
            store.heal();
            tokio::time::advance(Duration::from_secs(5)).await;
        }
        let refused = limiter.acquire(&rule, &alice).await.unwrap_err();
        let refusal = refused.decision().unwrap();
        assert_eq!((refusal.is_blocked(), refusal.source()), (true, source));
        let peeked = limiter.peek(&rule, &alice).await.unwrap();
        assert_eq!((peeked.is_blocked(), peeked.source()), (true, source));
    }
    assert_eq!(
        limiter.acquire(&rule, &bob).await.unwrap().source(),
        Source::Store
    );
    let in_shadow = limiter
        .peek(&rule.clone().with_shadow(true), &alice)
        .await
        .unwrap();
    assert_eq!(
        in_shadow.source(),
        Source::Store,
        "a rule in shadow mode is not blocked"
    );

    // It ends with its time, or by hand.
    assert!(
        limiter.unblock(&rule, &alice).await.unwrap(),
        "the block in this process is one"
    );
    assert_eq!(
        limiter.acquire(&rule, &alice).await.unwrap().source(),
        Source::Store
    );
}

#[tokio::test(start_paused = true)]
async fn a_block_by_hand_during_an_outage_fails_and_holds_in_this_process() {
    for policy in [
        OnUnavailable::Local,
        OnUnavailable::Allow,
        OnUnavailable::Deny,
    ] {
        let store = FaultyStore::new(MemoryStore::new());
        let limiter = on(&store, policy);
        let rule = Rule::new("blocked", Limit::per_second(100));
        let (alice, bob) = (Key::of("alice"), Key::of("bob"));
        let blocked = async || {
            let refused = limiter.acquire(&rule, &alice).await.unwrap_err();
            refused.decision().unwrap().is_blocked()
        };
        store.fail();
        let hour = Duration::from_secs(3600);
        let error = limiter.block(&rule, &alice, hour).await.unwrap_err();
        assert!(
            matches!(error, RateLimitError::Unavailable(_)),
            "{policy}: {error:?}"
        );
        assert!(blocked().await, "{policy}: during the outage");
        store.heal();
        assert!(blocked().await, "{policy}: after the outage");
        assert_eq!(
            limiter.acquire(&rule, &bob).await.unwrap().source(),
            Source::Store
        );
        // Another block is in place of this one, and ends it with its own time.
        limiter
            .block(&rule, &alice, Duration::from_secs(10))
            .await
            .unwrap();
        assert!(blocked().await);
        tokio::time::advance(Duration::from_secs(11)).await;
        assert!(limiter.acquire(&rule, &alice).await.is_ok(), "{policy}");

        // A block that cannot be changes nothing.
        store.fail();
        assert!(limiter.block(&rule, &bob, Duration::ZERO).await.is_err());
        assert!(limiter.block(&rule, &bob, hour).await.is_err());
        assert!(
            limiter.unblock(&rule, &bob).await.is_err(),
            "the store was not reached"
        );
        store.heal();
        assert!(limiter.acquire(&rule, &bob).await.is_ok(), "{policy}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refund_goes_to_the_store_that_was_charged() {
    let store = FaultyStore::new(MemoryStore::new());
    let limiter = on(&store, OnUnavailable::Local);
    let rule = Rule::new("refund", Limit::per_hour(1));
    let from_store = limiter.acquire(&rule, &Key::global()).await.unwrap();
    store.fail();
    let from_memory = limiter.acquire(&rule, &Key::global()).await.unwrap();
    assert!(limiter.acquire(&rule, &Key::global()).await.is_err());
    assert!(
        limiter
            .refund(&rule, &Key::global(), &from_memory)
            .await
            .unwrap()
    );
    assert!(
        limiter
            .acquire(&rule, &Key::global())
            .await
            .unwrap()
            .is_degraded()
    );
    store.heal();
    assert!(limiter.acquire(&rule, &Key::global()).await.is_err());
    assert!(
        limiter
            .refund(&rule, &Key::global(), &from_store)
            .await
            .unwrap()
    );
    assert!(
        !limiter
            .acquire(&rule, &Key::global())
            .await
            .unwrap()
            .is_degraded()
    );
}

/// `remaining()` is at most `limit()`.
#[tokio::test]
async fn the_limit_of_a_bucket_is_its_burst() {
    let limiter = RateLimiter::memory();
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
        let rule = Rule::named(algorithm.to_string(), Limit::per_minute(5).with_burst(20))
            .with_algorithm(algorithm);
        let decision = limiter.acquire(&rule, &Key::global()).await.unwrap();
        assert_eq!((decision.limit(), decision.remaining()), (20, 19));
        assert_eq!(decision.window(), Duration::from_secs(60));
    }
}
