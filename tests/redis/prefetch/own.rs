//! Units that a process holds do not refuse its own calls.

use std::time::Duration;

use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::store::Request;
use ratelimit_runtime::{Algorithm, Key, RateLimitError, RateLimiter, RedisStore, Rule, Store};

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
