//! Units that a process holds do not refuse its own calls.

use std::time::Duration;

use ratelimit_runtime::__private::{BuiltInStore as _, PermitRequest};
use ratelimit_runtime::store::Request;
use ratelimit_runtime::{
    Algorithm, Key, Limit, RateLimitError, RateLimiter, RedisStore, Rule, Store,
};
use tokio::runtime::Builder;

use super::{MAX, limits, spend, spend_by, store, used};
use crate::support::proxy::Proxy;
use crate::support::redis::shared;
use crate::support::unique;

/// What this process holds itself does not refuse its calls.
#[tokio::test]
async fn a_call_that_costs_more_than_is_held_is_admitted_where_it_fits_with_that() {
    let lease = Duration::from_secs(10);
    for &algorithm in Algorithm::ALL {
        let (store, other) = (store(shared()).await, store(shared()).await);
        let (key, limits) = (unique("heavy"), limits());
        let request = Request::new(key.as_bytes(), algorithm, &limits).with_prefetch(lease);
        let (calls, _) = spend(&store, request).await;
        let heavy = request.with_cost(MAX - calls);
        assert!(used(&other, request).await > calls, "{algorithm}");
        let admitted = store.acquire(heavy).await.unwrap();
        assert!(admitted.allowed, "{algorithm}: {admitted:?}");
        assert_eq!(admitted.remaining, 0, "{algorithm}");
        store.settled().await.unwrap();
        assert_eq!(used(&other, request).await, MAX, "{algorithm}");
    }
}

/// Nor what it is giving back: to a call, to calls side by side, to a stack.
#[tokio::test]
async fn what_is_being_given_back_refuses_no_call_of_this_process() {
    let lease = Duration::from_secs(10);
    for &algorithm in Algorithm::ALL {
        for shape in ["alone", "abreast", "stack"] {
            let (store, limits) = (store(shared()).await, limits());
            let (key, other) = (unique(shape), unique("other"));
            let request = Request::new(key.as_bytes(), algorithm, &limits).with_prefetch(lease);
            let (calls, _) = spend(&store, request).await;
            let heavy = request.with_cost(MAX - calls);
            match shape {
                "alone" => {
                    store.give_back();
                    let admitted = store.acquire(heavy).await.unwrap();
                    assert!(admitted.allowed, "{algorithm}: {admitted:?}");
                }
                "abreast" => {
                    let halves = [request.with_cost((MAX - calls) / 2); 2];
                    let [one, two] = halves.map(|half| store.acquire(half));
                    let (one, two) = tokio::join!(one, two);
                    let (one, two) = (one.unwrap(), two.unwrap());
                    assert!(one.allowed && two.allowed, "{algorithm}: {one:?} {two:?}");
                }
                _ => {
                    let other = Request::new(other.as_bytes(), algorithm, &limits);
                    let stack = [heavy, other];
                    let verdict = store.acquire_all(None, &stack).await.unwrap();
                    assert!(verdict.is_acquired(), "{algorithm}: {verdict:?}");
                }
            }
            store.settled().await.unwrap();
            let most = used(&store, request).await;
            assert!(
                (MAX - 1..=MAX).contains(&most),
                "{algorithm}, {shape}: {most}"
            );
        }
    }
}

/// Others go on spending what would not help.
#[tokio::test]
async fn a_stack_that_another_rule_refuses_gives_nothing_back() {
    let lease = Duration::from_secs(10);
    for &algorithm in Algorithm::ALL {
        let (store, limits) = (store(shared()).await, limits());
        let (key, other) = (unique("ahead"), unique("used up"));
        let request = Request::new(key.as_bytes(), algorithm, &limits).with_prefetch(lease);
        let (calls, _) = spend(&store, request).await;
        let used_up = Request::new(other.as_bytes(), algorithm, &limits).with_cost(MAX);
        assert!(store.acquire(used_up).await.unwrap().allowed);
        for cost in [1, MAX - calls] {
            let stack = [request.with_cost(cost), used_up];
            let refused = store.acquire_all(None, &stack).await.unwrap();
            assert!(!refused.is_acquired(), "{algorithm}: {refused:?}");
        }
        assert!(store.acquire(request).await.unwrap().cached, "{algorithm}");
    }
}

/// The server has refused: that is told, and not what the policy for outages says.
#[tokio::test]
async fn a_refusal_stands_where_there_is_no_time_to_give_back() {
    let proxy = Proxy::start(shared().port()).await;
    let url = format!("redis://{}/", proxy.address());
    let store = RedisStore::new(&url).unwrap().deny_cache(false);
    let builder = RateLimiter::builder().store(store);
    let limiter = builder.timeout(Duration::from_millis(300)).build().unwrap();
    limiter.ready().await.unwrap();
    let rule = Rule::named(unique("distant"), limits()[0]);
    let rule = rule.with_prefetch(Duration::from_secs(10));
    let key = Key::global();
    let calls = spend_by(&limiter, &rule, &key).await;
    proxy.delay(Duration::from_millis(60));
    // Some are held, and would be enough.
    let heavy = rule.with_cost(MAX - calls - 2);
    let refused = limiter.acquire(&heavy, &key).await.unwrap_err();
    assert!(
        matches!(refused, RateLimitError::Exceeded(_)),
        "{refused:?}"
    );
}

/// Whoever was refused for it: a look, a stack that something else refuses, a call of a rule that
/// takes nothing ahead.
#[tokio::test]
async fn a_refusal_for_what_is_held_does_not_become_known() {
    let lease = Duration::from_secs(10);
    for &algorithm in Algorithm::ALL {
        for shape in ["look", "stack", "permit", "plain"] {
            let (store, limits) = (store(shared()).await, limits());
            let (key, other) = (unique(shape), unique("used up"));
            let request = Request::new(key.as_bytes(), algorithm, &limits).with_prefetch(lease);
            let (calls, _) = spend(&store, request).await;
            let heavy = request.with_cost(MAX - calls);
            let is_refused = match shape {
                "look" => !store.peek(heavy).await.unwrap().allowed,
                "stack" => {
                    let used_up = Request::new(other.as_bytes(), algorithm, &limits);
                    let used_up = used_up.with_cost(MAX);
                    assert!(store.acquire(used_up).await.unwrap().allowed);
                    let stack = [heavy, used_up];
                    let verdict = store.acquire_all(None, &stack).await.unwrap();
                    verdict.verdicts.iter().all(|part| !part.allowed)
                }
                "permit" => {
                    let permits = [(); 2].map(|()| PermitRequest::new(other.as_bytes(), 1));
                    let [first, second] = permits.map(Some);
                    let held = store.acquire_all(first, &[]).await.unwrap();
                    assert!(held.is_acquired());
                    let verdict = store.acquire_all(second, &[heavy]).await.unwrap();
                    verdict.is_full && verdict.verdicts.iter().all(|part| !part.allowed)
                }
                _ => {
                    let plain = heavy.with_prefetch(Duration::ZERO);
                    !store.acquire(plain).await.unwrap().allowed
                }
            };
            assert!(is_refused, "{algorithm}, {shape}");
            let admitted = store.acquire(heavy).await.unwrap();
            assert!(admitted.allowed, "{algorithm}, {shape}: {admitted:?}");
            // Nothing is held that would admit it once more.
            let mut known = 0;
            for _ in 0..10 {
                let refused = store.acquire(heavy).await.unwrap();
                assert!(!refused.allowed, "{algorithm}, {shape}: {refused:?}");
                known += u64::from(refused.cached);
            }
            assert!(known >= 8, "{algorithm}, {shape}: {known} of 10");
        }
    }
}

/// Units on another runtime are given back when that has time for it.
#[test]
fn what_another_runtime_gives_back_voids_the_refusals_known_until_then() {
    let [one, other] = [(); 2].map(|()| {
        let mut builder = Builder::new_current_thread();
        builder.enable_all().build().unwrap()
    });
    let lease = Duration::from_secs(10);
    for &algorithm in Algorithm::ALL {
        let (key, limits) = (unique("other runtime"), limits());
        let request = Request::new(key.as_bytes(), algorithm, &limits).with_prefetch(lease);
        let store = other.block_on(store(shared()));
        let (calls, _) = other.block_on(spend(&store, request));
        let heavy = request.with_cost(MAX - calls);
        one.block_on(async {
            store.ready().await.unwrap();
            for is_known in [false, true] {
                let refused = store.acquire(heavy).await.unwrap();
                assert!(!refused.allowed, "{algorithm}: {refused:?}");
                assert_eq!(refused.cached, is_known, "{algorithm}");
            }
        });
        other.block_on(store.settled()).unwrap();
        let admitted = one.block_on(store.acquire(heavy)).unwrap();
        assert!(admitted.allowed, "{algorithm}: {admitted:?}");
    }
}

/// The server has refused before it stalled.
#[tokio::test]
async fn a_refusal_stands_where_giving_back_takes_too_long() {
    let proxy = Proxy::start(shared().port()).await;
    let builder = RateLimiter::builder().store(RedisStore::new(&proxy.url()).unwrap());
    let timeout = Duration::from_millis(300);
    let limiter = builder.timeout(timeout).build().unwrap();
    limiter.ready().await.unwrap();
    for (algorithm, operation) in [
        (Algorithm::TokenBucket, "return"),
        (Algorithm::SlidingWindow, "refund"),
    ] {
        for is_stack in [false, true] {
            let (name, key) = (unique("stalled"), Key::global());
            let rule = |max| {
                let limit = Limit::new(max, limits()[0].window());
                let rule = Rule::named(name.clone(), limit).with_algorithm(algorithm);
                rule.with_prefetch(Duration::from_secs(10))
            };
            let calls = spend_by(&limiter, &rule(MAX), &key).await;
            // With another `max`, so that it ends no lease before it is refused.
            let heavy = rule(MAX - 1).with_cost(MAX - calls - 3);
            let other = Rule::named(unique("beside"), limits()[0]);
            proxy.hold(Some((operation, 2 * timeout)));
            let called = if is_stack {
                let stack = [(&heavy, &key), (&other, &key)];
                limiter.acquire_all(stack).await.map(drop)
            } else {
                limiter.acquire(&heavy, &key).await.map(drop)
            };
            proxy.hold(None);
            limiter.settled_within(10 * timeout).await.unwrap();
            assert!(
                matches!(called, Err(RateLimitError::Exceeded(_))),
                "{algorithm}, in a stack: {is_stack}: {called:?}"
            );
        }
    }
}
