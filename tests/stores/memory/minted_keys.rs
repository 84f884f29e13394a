//! What a caller gains who mints keys until the memory store is full: no lock-out of others, and of
//! a limit at most its used half, now and then. Time stands still, so that all that is admitted
//! counts.

use ratelimit_runtime::{Key, RateLimiter, Rule};

use super::*;

/// Sixteen shards of 64 places.
const PLACES: u64 = 1_024;
const MAX: u64 = 10;

fn store(places: u64) -> MemoryStore {
    MemoryStore::with_capacity(usize::try_from(places).unwrap()).with_clock(FakeClock::new())
}

struct Bucket<'a> {
    store: &'a MemoryStore,
    algorithm: Algorithm,
    limits: &'a [Limit],
}

impl Bucket<'_> {
    fn request<'a>(&'a self, key: &'a str) -> Request<'a> {
        Request::new(key.as_bytes(), self.algorithm, self.limits)
    }

    /// How many of so many calls are admitted.
    async fn calls(&self, key: &str, calls: u64) -> u64 {
        let mut admitted = 0;
        for _ in 0..calls {
            admitted += u64::from(self.store.acquire(self.request(key)).await.unwrap().allowed);
        }
        admitted
    }

    async fn remaining(&self, key: &str) -> u64 {
        self.store.peek(self.request(key)).await.unwrap().remaining
    }
}

#[tokio::test]
async fn a_flood_of_keys_refuses_no_newcomer_at_its_first_call() {
    for &algorithm in ALGORITHMS {
        // As many as by default, for one algorithm; that takes a while.
        let places = if algorithm == Algorithm::SlidingWindow {
            100_000
        } else {
            10_000
        };
        let store = store(places);
        assert!(store.is_empty());
        let bucket = Bucket {
            store: &store,
            algorithm,
            limits: &[Limit::per_hour(3)],
        };
        let mut minted = 0;
        for flood in [places * 9 / 10, places, places * 13 / 10] {
            while minted < flood {
                bucket.calls(&format!("minted {minted}"), 1).await;
                minted += 1;
            }
            let mut admitted = 0;
            for newcomer in 0..2_000 {
                admitted += bucket
                    .calls(&format!("newcomer {newcomer} after {flood}"), 1)
                    .await;
            }
            assert_eq!(admitted, 2_000, "{algorithm} after {flood} keys");
        }
        assert!(
            !store.is_empty() && store.len() as u64 <= places + places / 50,
            "{algorithm}: {} keys",
            store.len()
        );
    }
}

/// A flood against one key: how much of its limit is used, and how much of that of each key that is
/// minted.
#[derive(Debug, Clone, Copy)]
struct Flood {
    used: u64,
    minted: u64,
    /// How often the key is dropped in so many mintings as there are places: on average at most
    /// four times, and at most twice that here.
    drops: u64,
}

/// What the key is admitted in all never exceeds its limit by more than the used half for each time
/// that it was dropped; a key that is used up, blocked or reserved is never dropped.
#[tokio::test]
async fn a_flood_adds_at_most_the_used_half_of_a_limit_now_and_then_and_lifts_no_block() {
    const ROUNDS: u64 = 4;
    let floods = [
        // As many keys as a flood has calls.
        Flood {
            used: MAX / 2,
            minted: 1,
            drops: 0,
        },
        Flood {
            used: 1,
            minted: 1,
            drops: 3,
        },
        // Ever more calls for each key.
        Flood {
            used: MAX / 2,
            minted: MAX / 2,
            drops: 3,
        },
        Flood {
            used: 1,
            minted: MAX / 2,
            drops: 8,
        },
        Flood {
            used: MAX / 2,
            minted: MAX / 2 + 1,
            drops: 8,
        },
    ];
    for (algorithm, flood) in ALGORITHMS
        .iter()
        .flat_map(|&algorithm| floods.map(|flood| (algorithm, flood)))
    {
        let store = store(PLACES);
        let bucket = Bucket {
            store: &store,
            algorithm,
            limits: &[per(MAX, DAY)],
        };
        let mut admitted = bucket.calls("target", flood.used).await;
        assert_eq!(bucket.calls("spent", MAX + 1).await, MAX);
        store
            .block(bucket.request("blocked"), micros(DAY))
            .await
            .unwrap();
        let reservation = store
            .acquire(bucket.request("reserved").reserving())
            .await
            .unwrap();
        let mut drops = 0;
        for minted in 0..(3 + ROUNDS) * PLACES {
            bucket
                .calls(&format!("minted {minted}"), flood.minted)
                .await;
            // The caller sees at once when it has been dropped.
            if bucket.remaining("target").await > MAX - flood.used {
                drops += 1;
                admitted += bucket.calls("target", flood.used).await;
            }
        }
        let what = format!("{algorithm}, {flood:?}: dropped {drops} times, {admitted} admitted");
        admitted += bucket.calls("target", MAX + 1).await;
        assert!(admitted <= MAX + drops * flood.used, "{what}");
        assert!(drops <= flood.drops * (3 + ROUNDS), "{what}");
        assert_eq!(bucket.calls("spent", 3).await, 0, "{what}");
        let blocked = store.acquire(bucket.request("blocked")).await.unwrap();
        assert!(!blocked.allowed && blocked.blocked, "{what}");
        assert!(
            store
                .settle(
                    bucket.request("reserved").reserving(),
                    reservation.ticket,
                    0
                )
                .await
                .unwrap()
                .was_open,
            "{what}"
        );
    }
}

#[tokio::test]
async fn minted_keys_of_one_rule_push_out_none_of_another_and_leave_room_for_its_newcomers() {
    let limiter = RateLimiter::with_store(store(PLACES));
    let quiet = Rule::new("quiet", Limit::per_day(MAX));
    let loud = Rule::new("loud", Limit::per_day(MAX));
    // Keys that are gone do not make it the largest.
    for key in 0..2 * PLACES {
        let _ = limiter.acquire(&quiet, &Key::of(&key)).await.unwrap();
        limiter.reset(&quiet, &Key::of(&key)).await.unwrap();
    }
    for key in 0..200 {
        let _ = limiter.acquire(&quiet, &Key::of(&key)).await.unwrap();
    }
    for key in 0..100 * PLACES {
        let _ = limiter.acquire(&loud, &Key::of(&key)).await;
    }
    for key in 0..200 {
        let decision = limiter.peek(&quiet, &Key::of(&key)).await.unwrap();
        assert_eq!(decision.remaining(), MAX - 1, "key {key}: {decision:?}");
    }
    for key in 0..50 {
        let decision = limiter
            .acquire(&quiet, &Key::of(&format!("newcomer {key}")))
            .await
            .unwrap();
        assert_eq!(decision.remaining(), MAX - 1);
    }
}

/// Not by the charge of a later caller.
#[tokio::test]
async fn a_key_in_a_full_store_is_judged_by_the_max_it_was_asked_with_and_its_fullest_limit() {
    let many = [per(100, DAY); 2];
    for (few, calls) in [(&[per(5, DAY)][..], 3), (&[per(100, DAY), per(3, DAY)], 1)] {
        for &algorithm in ALGORITHMS {
            let store = store(PLACES);
            let [few, many] = [few, &many[..few.len()]].map(|limits| Bucket {
                store: &store,
                algorithm,
                limits,
            });
            // Asked first with a larger one.
            assert_eq!(
                many.calls("target", 1).await + few.calls("target", calls).await,
                1 + calls,
                "{algorithm}"
            );
            for minted in 0..8 * PLACES {
                many.calls(&format!("minted {minted}"), 10).await;
            }
            assert_eq!(few.remaining("target").await, 1, "{algorithm}");
        }
    }
}

/// New keys are counted together then.
#[tokio::test]
async fn a_store_full_of_keys_that_are_used_up_drops_none() {
    for &algorithm in ALGORITHMS {
        let store = store(PLACES);
        let bucket = Bucket {
            store: &store,
            algorithm,
            limits: &[per(2, DAY)],
        };
        for minted in 0..4 * PLACES {
            bucket.calls(&format!("minted {minted}"), 2).await;
        }
        for first in 0..PLACES / 2 {
            assert_eq!(
                bucket.calls(&format!("minted {first}"), 1).await,
                0,
                "{algorithm}, {first}"
            );
        }
    }
}

/// A block by hand finds room as a call does: by the draw of four keys in a shard of 64, of which
/// one must not be blocked. With 16 blocks in 64 shards, the chance that it fails is below 1 in a
/// million; with 100 in 16 shards it was 1 in 30.
#[tokio::test]
async fn a_full_store_has_room_for_another_block() {
    const PLACES: u64 = 4_096;
    for &algorithm in ALGORITHMS {
        let store = store(PLACES);
        let bucket = Bucket {
            store: &store,
            algorithm,
            limits: &[per(MAX, DAY)],
        };
        for minted in 0..4 * PLACES {
            bucket.calls(&format!("minted {minted}"), 1).await;
        }
        for key in 0..16 {
            let key = format!("blocked {key}");
            store
                .block(bucket.request(&key), micros(DAY))
                .await
                .unwrap();
            assert_eq!(bucket.calls(&key, 1).await, 0, "{algorithm}");
        }
    }
}

/// What the call did cost is charged when it ends: its estimate may be a small part of that.
#[tokio::test]
async fn a_flood_drops_no_open_estimate_of_a_log() {
    let (store, limits) = (store(64), [per(MAX, DAY)]);
    let request = Request::new(b"patient", Algorithm::SlidingWindow, &limits).reserving_estimate();
    let admitted = store.acquire(request).await.unwrap();
    let minting = Bucket {
        store: &store,
        algorithm: Algorithm::SlidingWindow,
        limits: &limits,
    };
    for minted in 0..2_000 {
        minting.calls(&format!("minted {minted}"), 3).await;
    }
    let settled = store.settle(request, admitted.ticket, MAX).await.unwrap();
    assert!(settled.was_open);
    assert_eq!(minting.remaining("patient").await, 0);
}
