//! Before a refusal is too old, one caller asks for all.

use futures_util::future::join_all;

use super::*;

#[tokio::test(start_paused = true)]
async fn one_caller_asks_for_all_before_a_refusal_is_too_old() {
    let (far, cache) = refused("key").await;
    tokio::time::advance(MILLISECOND * 900).await;
    far.is(State::Late);
    let mut first = cache.acquire(request("key"));
    assert!(waits(&mut first));
    for elapsed in 0..10 {
        let others = join_all((0..100).map(|_| ask(&cache, request("key")))).await;
        assert!(others.iter().all(|refusal| refusal.cached && refusal.retry_after_us == 59_100_000 - elapsed * 9_000));
        tokio::time::advance(MILLISECOND * 9).await;
    }
    assert_eq!(far.asked(), 3);
    far.is(State::Answers);
    assert!(!first.await.unwrap().cached);
    // The new one counts from when it was asked for, 900 ms after the first.
    tokio::time::advance(MILLISECOND * 700).await;
    assert!(ask(&cache, request("key")).await.cached);
    assert_eq!(far.asked(), 3);
}

#[tokio::test(start_paused = true)]
async fn whoever_gives_up_hands_the_asking_on() {
    let (far, cache) = refused("key").await;
    tokio::time::advance(MILLISECOND * 900).await;
    far.is(State::Late);
    for asked in 3..10 {
        let mut asking = cache.acquire(request("key"));
        assert!(ask(&cache, request("key")).await.cached, "somebody asks already");
        if asked % 2 == 0 {
            // Some give up before they have asked.
            assert!(waits(&mut asking));
        }
        drop(asking);
    }
    assert_eq!(far.asked(), 2 + 3);
    far.is(State::Answers);
    assert!(!ask(&cache, request("key")).await.cached);
    assert!(ask(&cache, request("key")).await.cached);
}

/// However the one who asks for all fares, nobody is given a refusal that is too old.
#[tokio::test(start_paused = true)]
async fn everybody_asks_once_a_refusal_is_too_old() {
    let (far, cache) = refused("key").await;
    tokio::time::advance(MILLISECOND * 900).await;
    far.is(State::Late);
    let mut stuck = cache.acquire(request("key"));
    assert!(waits(&mut stuck));
    tokio::time::advance(MILLISECOND * 100 - MICROSECOND).await;
    assert!(ask(&cache, request("key")).await.cached);
    tokio::time::advance(MICROSECOND).await;
    for asked in 4..10 {
        assert!(cache.acquire_now(request("key")).is_err());
        assert!(waits(&mut cache.acquire(request("key"))));
        assert_eq!(far.asked(), asked);
    }
}

/// A look that may not wait takes on the asking for as long as its lookup lives.
#[tokio::test(start_paused = true)]
async fn a_lookup_asks_for_all_until_it_is_dropped() {
    let (far, cache) = refused("key").await;
    tokio::time::advance(MILLISECOND * 900).await;
    for _ in 0..3 {
        let lookup = cache.acquire_now(request("key")).unwrap_err();
        assert!(ask(&cache, request("key")).await.cached, "another call asks already");
        assert!(cache.acquire_now(request("key")).unwrap().unwrap().cached);
        drop(lookup);
    }
    assert_eq!(far.asked(), 2);
    let lookup = cache.acquire_now(request("key")).unwrap_err();
    assert!(!cache.acquire_after(request("key"), lookup).await.unwrap().cached);
    assert!(ask(&cache, request("key")).await.cached);
    assert_eq!(far.asked(), 3);
}

/// What a call does with its answer does not depend on where it began.
#[tokio::test(start_paused = true)]
async fn a_lookup_of_nothing_is_no_way_around_the_cache() {
    let (far, cache) = refused("key").await;
    assert!(cache.acquire_after(request("key"), Lookup::default()).await.unwrap().cached);
    assert_eq!(far.asked(), 2);
    let lookup = cache.acquire_now(request("other")).unwrap_err();
    assert!(cache.acquire_after(request("other"), lookup).await.unwrap().allowed);
    let lookup = cache.acquire_now(request("other")).unwrap_err();
    assert!(!cache.acquire_after(request("other"), lookup).await.unwrap().cached);
    assert!(ask(&cache, request("other")).await.cached, "the refusal was kept");
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
