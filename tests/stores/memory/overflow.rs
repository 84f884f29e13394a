//! The memory store full of keys that have too much to lose to make room: newcomers share buckets.

use std::sync::Arc;

use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::store::StoreErrorKind;
use ratelimit_runtime::{Key, RateLimiter, Rule};

use super::*;

struct Flooded {
    store: MemoryStore,
    clock: FakeClock,
    algorithm: Algorithm,
    limits: [Limit; 1],
}

impl Flooded {
    async fn new(algorithm: Algorithm, capacity: usize, keys: u32) -> Self {
        let clock = FakeClock::new();
        let store = MemoryStore::with_capacity(capacity).with_clock(clock.clone());
        let flooded = Self {
            store,
            clock,
            algorithm,
            limits: [per(5, MINUTE)],
        };
        flooded.flood("flood", keys).await;
        flooded
    }

    /// Each uses more than half of its limit.
    async fn flood(&self, name: &str, keys: u32) {
        for key in 0..keys {
            for _ in 0..3 {
                let _ = self.acquire(format!("{name} {key}").as_bytes()).await;
            }
        }
    }

    fn request<'a>(&'a self, key: &'a [u8]) -> Request<'a> {
        Request::new(key, self.algorithm, &self.limits)
    }

    async fn acquire(&self, key: &[u8]) -> ratelimit_runtime::store::Verdict {
        self.store.acquire(self.request(key)).await.unwrap()
    }
}

/// 600 keys live at a time, each of which comes once, and so for six minutes.
#[tokio::test]
async fn newcomers_have_a_limit_of_their_own_once_a_flood_is_over() {
    for &algorithm in ALGORITHMS {
        let flooded = Flooded::new(algorithm, 1_000, 20_000).await;
        let mut refused = 0;
        // The keys of a sliding counter live for two windows.
        let pause = if algorithm == Algorithm::SlidingCounter {
            SECOND / 5
        } else {
            SECOND / 10
        };
        for guest in 0..6 * MINUTE / pause {
            flooded.clock.advance(micros(pause));
            let verdict = flooded.acquire(format!("guest {guest}").as_bytes()).await;
            // The first minutes are the flood's.
            refused += u32::from(guest * pause >= 5 * MINUTE && !verdict.allowed);
        }
        assert_eq!(
            refused, 0,
            "first calls refused under {algorithm:?}, five minutes after a flood"
        );
    }
}

/// Two keys that share an overflow bucket of a store for one key, because that stays.
async fn neighbours(flooded: &Flooded) -> (Vec<u8>, Vec<u8>) {
    flooded
        .store
        .block(flooded.request(b"tenant"), micros(DAY))
        .await
        .unwrap();
    let stranger = b"stranger".to_vec();
    for _ in 0..3 {
        assert!(flooded.acquire(&stranger).await.allowed);
    }
    for candidate in 0..1_000 {
        let candidate = format!("candidate {candidate}").into_bytes();
        if flooded
            .store
            .peek(flooded.request(&candidate))
            .await
            .unwrap()
            .remaining
            == 2
        {
            return (stranger, candidate);
        }
    }
    panic!("no key shares an overflow bucket with the stranger");
}

#[tokio::test]
async fn a_newcomer_is_not_blocked_for_strangers_and_has_a_bucket_of_its_own_once_there_is_room() {
    for &algorithm in ALGORITHMS {
        let flooded = Flooded::new(algorithm, 1, 0).await;
        let (stranger, key) = neighbours(&flooded).await;
        assert!(flooded.acquire(&stranger).await.allowed);
        // There is room for one of the two, and a call that needs both takes none.
        let both = [flooded.request(&stranger), flooded.request(&key)];
        let stack = flooded.store.acquire_all(None, &both).await.unwrap();
        assert!(!stack.is_acquired(), "{algorithm:?}");
        assert!(flooded.acquire(&stranger).await.allowed);
        let blocking = flooded.request(&key).with_block(micros(DAY));
        for _ in 0..3 {
            let refused = flooded.store.acquire(blocking).await.unwrap();
            assert_eq!(
                (refused.allowed, refused.blocked),
                (false, false),
                "{algorithm:?}"
            );
        }
        let full = flooded.store.block(blocking, micros(DAY)).await;
        assert_eq!(full.unwrap_err().kind(), StoreErrorKind::Full);
        assert!(
            flooded
                .store
                .reset(flooded.request(b"tenant"))
                .await
                .unwrap()
        );
        // What the strangers used is theirs, and what it uses itself may block it.
        assert_eq!(
            flooded.store.peek(blocking).await.unwrap().remaining,
            5,
            "{algorithm:?}"
        );
        for _ in 0..5 {
            assert!(
                flooded.store.acquire(blocking).await.unwrap().allowed,
                "{algorithm:?}"
            );
        }
        assert!(
            flooded.store.acquire(blocking).await.unwrap().blocked,
            "{algorithm:?}"
        );
        // Of what is over nothing is kept, and nothing told.
        for last in [b"one".as_slice(), b"another"] {
            flooded.clock.advance(micros(2 * DAY));
            assert!(flooded.acquire(last).await.allowed);
            assert_eq!(flooded.store.len(), 1, "{algorithm:?}");
        }
        flooded.clock.advance(micros(2 * DAY));
        let reset = flooded.store.reset(flooded.request(b"another")).await;
        assert!(!reset.unwrap(), "{algorithm:?}");
    }
}

/// It is no offence, which the next block would have to remember.
#[tokio::test]
async fn a_block_by_hand_makes_room_when_it_is_over() {
    let flooded = Flooded::new(Algorithm::SlidingWindow, 1, 0).await;
    let growing = flooded.request(b"by hand");
    let growing = growing.with_growing_block(micros(MINUTE), micros(DAY));
    let blocked = flooded.store.block(growing, micros(MINUTE)).await;
    assert!(blocked.is_ok());
    flooded.clock.advance(micros(MINUTE));
    assert!(flooded.acquire(b"newcomer").await.allowed);
    assert_eq!(flooded.store.len(), 1);
}

/// A client may choose the name of a rule, as that of a policy.
#[tokio::test]
async fn rules_without_number_share_overflow_buckets() {
    let store = Arc::new(MemoryStore::with_capacity(1));
    let limiter = RateLimiter::with_store(Arc::clone(&store));
    let rule = |number| Rule::named(format!("minted {number}"), per(5, MINUTE));
    let blocked = limiter.block(&rule(0), &Key::global(), micros(DAY)).await;
    assert!(blocked.is_ok());
    for number in 1..2_000 {
        let _ = limiter.acquire(&rule(number), &Key::global()).await;
    }
    assert!(store.len() <= 1 + 1_024 + 16, "{}", store.len());
}

/// The keys that filled the store are over: a call finds room, and so does what looks before it.
#[tokio::test]
async fn a_stack_and_a_peek_find_the_room_that_a_call_finds() {
    for &algorithm in ALGORITHMS {
        let clock = FakeClock::new();
        let store = MemoryStore::with_capacity(64).with_clock(clock.clone());
        let limiter = RateLimiter::with_store(store);
        let rule = |name, window| Rule::named(name, per(1, window)).with_algorithm(algorithm);
        let (minute, day) = (rule("a minute", MINUTE), rule("a day", DAY));
        let other = rule("another", MINUTE);
        for minted in 0..64 {
            let admitted = limiter.acquire(&minute, &Key::of(&minted)).await;
            assert!(admitted.is_ok(), "{algorithm:?}");
        }
        // They share sixteen overflow buckets.
        for guest in 0..1_000 {
            drop(limiter.acquire(&day, &Key::of(&guest)).await);
        }
        clock.advance(micros(3 * MINUTE));
        for newcomer in 1_000..1_010 {
            let key = Key::of(&newcomer);
            let peeked = limiter.peek(&day, &key).await.unwrap();
            assert!(peeked.is_allowed(), "{algorithm:?}: {peeked:?}");
            let both = limiter.acquire_all([(&day, &key), (&other, &key)]).await;
            assert!(both.is_ok(), "{algorithm:?}: {both:?}");
        }
    }
}

#[tokio::test]
async fn a_charge_is_given_back_to_the_bucket_that_was_charged_or_to_none() {
    for &algorithm in ALGORITHMS {
        let flooded = Flooded::new(algorithm, 1, 0).await;
        let (_, key) = neighbours(&flooded).await;
        let (store, request) = (&flooded.store, flooded.request(&key));
        let tenant = flooded.request(b"tenant");
        let left = async || store.peek(request).await.unwrap().remaining;
        let shared = flooded.acquire(&key).await;
        let reserved = store.acquire(request.reserving()).await.unwrap();
        assert_eq!(left().await, 0, "{algorithm}: with three of a stranger");

        assert!(store.reset(tenant).await.unwrap());
        let own = flooded.acquire(&key).await;
        let released = store.settle(request.reserving(), reserved.ticket, 0);
        assert!(released.await.unwrap().was_open, "{algorithm}");
        assert!(store.refund(request, shared.ticket).await.unwrap());
        assert_eq!(left().await, 4, "{algorithm}: its own charge stays");

        // That takes the room of the key.
        store.block(tenant, micros(DAY)).await.unwrap();
        assert_eq!(left().await, 2, "{algorithm}: shared again");
        assert!(!store.refund(request, own.ticket).await.unwrap());
        assert_eq!(left().await, 2, "{algorithm}: the stranger's charges stay");
    }
}
