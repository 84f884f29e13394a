//! Stores behind pointers, and a layer written outside of the crate.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use ratelimit_runtime::store::{Answer, Capabilities, Request, Verdict};
use ratelimit_runtime::testkit::FaultyStore;
use ratelimit_runtime::{
    Algorithm, Key, Limit, MemoryStore, RateLimiter, RedisStore, Rule, Source, Store, rate_limit,
};

use crate::Outcome;
use crate::support::deny_cache::DenyCache;
use crate::support::layer::forward;

#[tokio::test]
async fn pointers_to_stores_are_stores() {
    let boxed: Box<dyn Store> = Box::new(MemoryStore::new());
    let shared: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let leaked: &'static MemoryStore = Box::leak(Box::new(MemoryStore::new()));
    let limiters = [
        RateLimiter::with_store(boxed),
        RateLimiter::with_store(Arc::clone(&shared)),
        RateLimiter::builder().store(leaked).build().unwrap(),
    ];
    // Whatever the trait provides reaches the store behind the pointer, too.
    let rule = Rule::new("pointer", Limit::per_hour(1))
        .and(Limit::per_day(2))
        .with_block(Duration::from_secs(60));
    for limiter in limiters {
        let admission = limiter.acquire(&rule, &Key::global()).await.unwrap();
        assert!(
            limiter
                .refund(&rule, &Key::global(), &admission)
                .await
                .unwrap()
        );
        let _ = limiter.acquire(&rule, &Key::global()).await.unwrap();
        assert!(
            limiter
                .acquire(&rule, &Key::global())
                .await
                .unwrap_err()
                .decision()
                .unwrap()
                .is_blocked()
        );
    }
    assert_eq!(shared.capabilities(), Capabilities::all());
}

/// A layer that counts decisions, and leaves out all that the trait provides.
struct Counted<S> {
    store: S,
    decisions: AtomicU64,
}

impl<S: Store> Store for Counted<S> {
    fn inner(&self) -> Option<&dyn Store> {
        Some(&self.store)
    }

    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        self.decisions.fetch_add(1, Ordering::SeqCst);
        self.store.acquire(request)
    }

    forward!(store: peek, reset);
}

fn counted<S: Store>(store: S) -> Arc<Counted<S>> {
    Arc::new(Counted {
        store,
        decisions: AtomicU64::new(0),
    })
}

#[tokio::test]
async fn the_store_inside_a_layer_answers_all_that_the_layer_leaves_out() {
    let layer = counted(MemoryStore::new());
    // Behind a pointer too, as a limiter has it.
    let store: Arc<dyn Store> = layer.clone();
    let limits = [Limit::per_hour(2)];
    let request = Request::new(b"layer:<a>", Algorithm::SlidingWindow, &limits);
    assert_eq!(store.capabilities(), Capabilities::all());
    let charged = store.acquire(request).await.unwrap();
    assert!(store.refund(request, charged.ticket).await.unwrap());
    for actual_cost in [1, 0] {
        let reserved = store.acquire(request.reserving()).await.unwrap();
        assert!(
            store
                .settle(request.reserving(), reserved.ticket, actual_cost)
                .await
                .unwrap()
                .was_open
        );
    }
    store.block(request, Duration::from_secs(60)).await.unwrap();
    assert!(store.peek(request).await.unwrap().blocked);
    assert!(store.unblock(request).await.unwrap());
    let (limiter, rule) = (
        RateLimiter::with_store(store),
        Rule::new("layer", limits[0]),
    );
    let _ = limiter.acquire(&rule, &Key::of("a")).await.unwrap();
    let (mut keys, mut listed) = (limiter.keys(&rule), Vec::new());
    while let Some(page) = keys.next_page().await.unwrap() {
        listed.extend(page);
    }
    assert_eq!(listed, [Key::of("a")]);
    assert_eq!(layer.decisions.load(Ordering::SeqCst), 4);

    let away = RateLimiter::with_store(counted(RedisStore::new("redis://127.0.0.1:1").unwrap()));
    let ready = tokio::time::timeout(Duration::from_millis(50), away.ready()).await;
    assert!(
        ready.is_err(),
        "the layer's own answer, not that of the store: {ready:?}"
    );
}

/// A stack of rules and a permit beside limits are decided in one step by the stores of this crate.
#[tokio::test]
async fn no_decision_goes_past_the_acquire_of_a_layer() {
    let layer = counted(MemoryStore::new());
    let limiter = RateLimiter::with_store(layer.clone());
    let rule = Rule::new("layer", Limit::per_hour(3));
    for admitted in [true, false] {
        assert_eq!(limiter.scope(stacked()).await.is_ok(), admitted);
    }
    assert!(limiter.acquire(&rule, &Key::global()).await.is_ok());
    let beside = Rule::new("beside", Limit::per_hour(3)).with_concurrent(1);
    drop(limiter.enter(&beside, &Key::global()).await.unwrap());
    // The stack that is refused is looked at, and charges nothing.
    assert_eq!(layer.decisions.load(Ordering::SeqCst), 4);
}

#[rate_limit(name = "layer", window = "1h", max = 3)]
#[rate_limit(name = "other", window = "1h", max = 1)]
async fn stacked() -> Outcome {
    Ok(())
}

#[rate_limit(name = "own", key = "<ip>", window = "1h", max = 1, limiter = one)]
#[rate_limit(
    name = "another's",
    key = "<email>",
    window = "1h",
    max = 5,
    block = "1h",
    limiter = other
)]
async fn send_code(one: &RateLimiter, other: &RateLimiter, ip: u64, email: u64) -> Outcome {
    Ok(())
}

/// Whoever his own limit refuses neither uses up nor blocks what is another's, in one step or in
/// several.
#[tokio::test]
async fn what_one_limit_refuses_takes_nothing_from_another() {
    let [memory, one, other, layer] = [
        RateLimiter::memory(),
        RateLimiter::memory(),
        RateLimiter::memory(),
        RateLimiter::with_store(counted(MemoryStore::new())),
    ];
    for (one, other) in [(&memory, &memory), (&one, &other), (&layer, &layer)] {
        let send = async |ip| send_code(one, other, ip, 0).await;
        assert!(send(0).await.is_ok());
        for _ in 0..100 {
            assert!(send(0).await.is_err());
        }
        for ip in 1..5 {
            assert!(send(ip).await.is_ok(), "code {ip}");
        }
        assert!(send(5).await.is_err());
    }
}

/// A client that asks again and again, whose refusals cost the store nothing.
#[tokio::test(start_paused = true)]
async fn a_stack_of_which_one_limit_is_known_to_refuse_does_not_ask() {
    let store = FaultyStore::new(MemoryStore::new());
    let limiter = RateLimiter::with_store(DenyCache::new(store.clone()));
    let call = || limiter.scope(stacked());
    assert!(call().await.is_ok());
    assert!(call().await.is_err());
    let asked = store.calls();
    for _ in 0..100 {
        let refused = call().await.unwrap_err();
        let decision = refused.decision().unwrap();
        assert_eq!(
            (decision.rule(), decision.source()),
            ("other", Source::DenyCache)
        );
    }
    assert_eq!(store.calls(), asked);
}

/// Of the limits beside the one that is known to refuse, nothing is known: a call that could wait
/// for that one alone does not.
#[tokio::test(start_paused = true)]
async fn a_call_that_another_limit_refuses_does_not_wait_for_one_that_is_known_to() {
    let limiter = RateLimiter::with_store(DenyCache::new(MemoryStore::new()));
    let (hourly, key) = (Rule::new("hourly", Limit::per_hour(1)), Key::global());
    let soon = Rule::new("soon", Limit::per_minute(1));
    let waiting = soon.clone().with_wait(Duration::from_secs(120));
    let stack = [(&waiting, &key), (&hourly, &key)];
    assert!(limiter.acquire_all(stack).await.is_ok());
    assert!(limiter.acquire(&soon, &key).await.is_err());
    let start = tokio::time::Instant::now();
    let refused = limiter.acquire_all(stack).await.unwrap_err();
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(refused.decision().unwrap().rule(), "hourly");
}

/// As of any future: a second answer would be a decision that nobody made.
#[test]
#[should_panic(expected = "`Answer` polled after completion")]
fn an_answer_is_given_once() {
    let (mut answer, mut context) = (Answer::ready(Ok(true)), Context::from_waker(Waker::noop()));
    for _ in 0..2 {
        assert!(Pin::new(&mut answer).poll(&mut context).is_ready());
    }
}

#[test]
fn time_ends_refusals_alone() {
    let after = |mut verdict: Verdict| {
        verdict.retry_after_us = 1_000_000;
        verdict.retry_after()
    };
    assert_eq!(after(Verdict::refused()), Some(Duration::from_secs(1)));
    assert_eq!(after(Verdict::admitted()), None);
    assert_eq!(Verdict::refused().retry_after(), None);
}
