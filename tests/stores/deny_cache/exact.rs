//! What a cached refusal says, and which is not cached. That it says what the store would is played
//! at random in `player`.

use ratelimit_runtime::RedisStore;
use ratelimit_runtime::testkit::FakeClock;

use super::*;
use crate::support::redis::shared;
use crate::support::unique;

/// How long a refusal that open reservations cause tells a caller to wait, in microseconds.
const RESERVED_WAIT: u64 = 50_000;

/// Each algorithm in memory, and on Redis.
fn caches(clock: &FakeClock) -> Vec<(&'static str, Box<dyn Store>)> {
    let memory = MemoryStore::new().with_clock(clock.clone());
    let redis = RedisStore::new(&shared().url()).unwrap().with_clock(clock.clone());
    vec![("memory", Box::new(DenyCache::new(memory).with_clock(clock.clone()))), ("Redis", Box::new(redis))]
}

#[tokio::test]
async fn a_cached_refusal_says_that_a_block_refuses_for_as_long_as_one_does() {
    for &algorithm in ratelimit_conformance::ALGORITHMS {
        let clock = FakeClock::new();
        for (place, store) in caches(&clock) {
            let (key, limits) = (unique("block"), [Limit::per_hour(2)]);
            let request = Request::new(key.as_bytes(), algorithm, &limits);
            for _ in 0..2 {
                assert!(store.acquire(request).await.unwrap().allowed);
            }
            // By a rule and by hand: shorter than the limit goes on refusing.
            let block = MILLISECOND * 100;
            for by_rule in [true, false] {
                let asks = if by_rule { request.with_block(block) } else { request };
                if by_rule {
                    assert!(store.acquire(asks).await.unwrap().blocked);
                } else {
                    store.block(request, block).await.unwrap();
                }
                let mut cached = 0;
                for _ in 0..9 {
                    let refused = store.acquire(asks).await.unwrap();
                    assert!(!refused.allowed && refused.blocked, "{algorithm} on {place}: {refused:?}");
                    cached += u64::from(refused.cached);
                    clock.advance(MILLISECOND * 10);
                }
                assert!(cached >= 8, "{algorithm} on {place}: {cached}");
                clock.advance(MILLISECOND * 10);
                let refused = store.acquire(request).await.unwrap();
                assert!(!refused.allowed && !refused.blocked, "{algorithm} on {place}: {refused:?}");
                let again = store.acquire(request).await.unwrap();
                assert!(again.cached && !again.blocked, "{algorithm} on {place}: {again:?}");
            }
        }
    }
}

/// They may be settled or lapse before its wait is over.
#[tokio::test]
async fn a_refusal_by_open_reservations_alone_is_not_cached() {
    for &algorithm in ratelimit_conformance::ALGORITHMS {
        let clock = FakeClock::new();
        for (place, store) in caches(&clock) {
            let (key, limits) = (unique("reserved"), [Limit::per_hour(2)]);
            let request = Request::new(key.as_bytes(), algorithm, &limits);
            for _ in 0..2 {
                assert!(store.acquire(request.reserving()).await.unwrap().allowed);
            }
            for _ in 0..10 {
                let refused = store.acquire(request).await.unwrap();
                assert_eq!(refused.retry_after_us, RESERVED_WAIT, "{algorithm} on {place}");
                assert!(!refused.cached, "{algorithm} on {place}");
                clock.advance(MILLISECOND * 20);
            }
        }
    }
}
