//! What a store that fails leaves in the cache, and what holds while it is away.

use ratelimit_runtime::{Key, RateLimiter, Rule, Source};

use super::*;

const BLOCK: Duration = Duration::from_secs(600);

#[tokio::test(start_paused = true)]
async fn a_block_holds_while_the_store_is_away() {
    let (far, cache) = cached();
    let blocking = request("blocked").with_block(BLOCK);
    for request in [blocking, request("limited")] {
        let _ = (ask(&cache, request).await, ask(&cache, request).await);
    }
    for (health, after) in [(Health::Down, 5), (Health::Slow, 300)] {
        far.is(State::Fails(health));
        tokio::time::advance(SECOND * after).await;
        for _ in 0..3 {
            let refusal = ask(&cache, blocking).await;
            assert!(refusal.blocked && refusal.cached, "{refusal:?}");
        }
        assert!(
            cache.acquire(request("limited")).await.is_err(),
            "other refusals do not"
        );
    }
    assert_eq!(
        ask(&cache, blocking).await.retry_after(),
        Some(BLOCK - SECOND * 305),
        "and it ends when it ends"
    );
    tokio::time::advance(BLOCK - SECOND * 305).await;
    assert!(cache.acquire(blocking).await.is_err());
}

/// Whatever the errors say: a store that is up decides.
#[tokio::test(start_paused = true)]
async fn an_old_block_does_not_hold_while_the_store_is_up() {
    let (far, cache) = cached();
    let blocking = request("blocked").with_block(BLOCK);
    let _ = (ask(&cache, blocking).await, ask(&cache, blocking).await);
    tokio::time::advance(SECOND * 5).await;
    far.is(State::Fails(Health::Up));
    assert!(cache.acquire(blocking).await.is_err());
    far.is(State::Answers);
    far.unblock(blocking).await.unwrap();
    tokio::time::advance(SECOND * 60).await;
    assert!(ask(&cache, blocking).await.allowed);
}

#[tokio::test(start_paused = true)]
async fn an_old_block_does_not_answer_for_a_store_that_is_late() {
    let (far, cache) = cached();
    let (limiter, key) = (RateLimiter::with_store(cache), Key::global());
    let rule = Rule::new("late", LIMITS[0]).with_block(BLOCK);
    for is_admitted in [true, false] {
        assert_eq!(limiter.acquire(&rule, &key).await.is_ok(), is_admitted);
    }
    tokio::time::advance(SECOND * 5).await;
    far.is(State::Late);
    let admitted = limiter.acquire(&rule, &key).await.unwrap();
    assert_eq!(admitted.source(), Source::Fallback);
}
