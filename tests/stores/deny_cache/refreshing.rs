//! A refusal that is over, or too old: the store is asked.

use futures_util::future::join_all;

use super::*;

/// However the asking callers fare, no caller gets a refusal that is too old.
#[tokio::test(start_paused = true)]
async fn all_callers_ask_once_a_refusal_is_too_old() {
    let (far, cache) = refused("key").await;
    tokio::time::advance(SECOND - MICROSECOND).await;
    assert!(ask(&cache, request("key")).await.cached);
    tokio::time::advance(MICROSECOND).await;
    far.is(State::Late);
    for asked in 3..10 {
        assert_eq!(at_once(&cache, request("key")), None);
        assert!(waits(&mut cache.acquire(request("key"))));
        assert_eq!(far.asked(), asked);
    }
    far.is(State::Answers);
    assert!(!ask(&cache, request("key")).await.cached);
    assert!(ask(&cache, request("key")).await.cached);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_ends_by_itself_is_not_asked_for_again() {
    let (far, cache) = cached();
    let limits = [Limit::new(1, MILLISECOND * 950)];
    let request = Request::new(b"key", Algorithm::SlidingWindow, &limits);
    let _ = (ask(&cache, request).await, ask(&cache, request).await);
    tokio::time::advance(MILLISECOND * 949).await;
    assert!(ask(&cache, request).await.cached);
    assert_eq!(far.asked(), 2);
}

/// A rule that waits is served when its slot comes, first come, first served, and asks the store no
/// more than before.
#[tokio::test(start_paused = true)]
async fn waiters_are_served_on_time() {
    use ratelimit_runtime::{Key, RateLimiter, Rule};
    static RULE: Rule = Rule::new("waits", Limit::new(1, Duration::from_secs(10))).with_wait(Duration::from_secs(60));
    let (far, cache) = cached();
    let limiter = RateLimiter::with_store(cache);
    let start = tokio::time::Instant::now();
    let calls = (0..6).map(|nth: u32| {
        let limiter = limiter.clone();
        async move {
            tokio::time::sleep(MILLISECOND * nth).await;
            let _ = limiter.acquire(&RULE, &Key::global()).await.unwrap();
            (start.elapsed().as_millis() + 5) / 10_000
        }
    });
    assert_eq!(join_all(calls).await, [0, 1, 2, 3, 4, 5]);
    assert!(far.asked() <= 13, "{}", far.asked());
}
