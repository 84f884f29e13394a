//! The memory store during and after a flood of keys that have too much to lose to make room:
//! newcomers share buckets.

use super::*;

const CAPACITY: usize = 1_000;

struct Flooded {
    store: MemoryStore,
    clock: FakeClock,
    algorithm: Algorithm,
    limits: [Limit; 1],
}

impl Flooded {
    async fn new(algorithm: Algorithm, keys: u32) -> Self {
        let clock = FakeClock::new();
        let store = MemoryStore::with_capacity(CAPACITY).with_clock(clock.clone());
        let flooded = Self { store, clock, algorithm, limits: [per(5, MINUTE)] };
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
        let flooded = Flooded::new(algorithm, 20_000).await;
        let mut refused = 0;
        // The keys of a sliding counter live for two windows.
        let pause = if algorithm == Algorithm::SlidingCounter { SECOND / 5 } else { SECOND / 10 };
        for guest in 0..6 * MINUTE / pause {
            flooded.clock.advance(micros(pause));
            let verdict = flooded.acquire(format!("guest {guest}").as_bytes()).await;
            // The first minutes are the flood's.
            refused += u32::from(guest * pause >= 5 * MINUTE && !verdict.allowed);
        }
        assert_eq!(refused, 0, "first calls refused under {algorithm:?}, five minutes after a flood");
    }
}

/// A newcomer is admitted by its overflow bucket before it has one of its own.
#[tokio::test]
async fn a_key_that_used_up_an_overflow_bucket_has_its_limit_once_more_at_most() {
    for &algorithm in ALGORITHMS {
        let flooded = Flooded::new(algorithm, 999).await;
        // One shard has 63 keys or so: fill them all with keys that live on, and let those of the
        // flood expire.
        flooded.clock.advance(micros(50 * SECOND));
        flooded.flood("late", 20_000).await;
        let mut admitted = 0;
        for _ in 0..30 {
            for _ in 0..5 {
                admitted += u32::from(flooded.acquire(b"attacker").await.allowed);
            }
            // In the middle of this the first keys are gone, and there is room.
            flooded.clock.advance(micros(SECOND));
        }
        let most = match algorithm {
            Algorithm::SlidingWindow | Algorithm::FixedWindow => 5,
            // What half a minute brings, and the limit once more.
            _ => 8 + 5,
        };
        assert!(admitted <= most, "{admitted} of 5 in half a minute under {algorithm:?}");
    }
}

/// A store for one key, in which two share the overflow bucket as soon as a third is there.
fn tiny(algorithm: Algorithm) -> Flooded {
    let clock = FakeClock::new();
    let store = MemoryStore::with_capacity(1).with_clock(clock.clone());
    Flooded { store, clock, algorithm, limits: [per(5, MINUTE)] }
}

/// Two keys that share an overflow bucket, because the one that has the only place stays.
async fn neighbours(flooded: &Flooded) -> (Vec<u8>, Vec<u8>) {
    flooded.store.block(flooded.request(b"tenant"), micros(DAY)).await.unwrap();
    let stranger = b"stranger".to_vec();
    for _ in 0..3 {
        assert!(flooded.acquire(&stranger).await.allowed);
    }
    for candidate in 0..1_000 {
        let candidate = format!("candidate {candidate}").into_bytes();
        if flooded.store.peek(flooded.request(&candidate)).await.unwrap().remaining == 2 {
            return (stranger, candidate);
        }
    }
    panic!("no key shares an overflow bucket with the stranger");
}

#[tokio::test]
async fn a_refused_newcomer_takes_no_room_and_is_not_blocked_for_strangers() {
    for &algorithm in ALGORITHMS {
        let flooded = tiny(algorithm);
        let (stranger, key) = neighbours(&flooded).await;
        for _ in 0..2 {
            assert!(flooded.acquire(&stranger).await.allowed);
        }
        assert!(flooded.store.reset(flooded.request(b"tenant")).await.unwrap());
        let blocking = flooded.request(&key).with_block(micros(DAY));
        for _ in 0..3 {
            let refused = flooded.store.acquire(blocking).await.unwrap();
            assert_eq!((refused.allowed, refused.blocked), (false, false), "{algorithm:?}");
        }
        assert_eq!(flooded.store.len(), 1, "{algorithm:?}: the overflow bucket alone");
        // Once what the strangers used is void, the key can be blocked for what it does itself.
        flooded.clock.advance(micros(3 * MINUTE));
        for _ in 0..5 {
            assert!(flooded.store.acquire(blocking).await.unwrap().allowed, "{algorithm:?}");
        }
        assert!(flooded.store.acquire(blocking).await.unwrap().blocked, "{algorithm:?}");
    }
}
