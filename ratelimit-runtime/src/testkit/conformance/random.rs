//! Random calls, compared with the reference one by one.

use std::time::Duration;

use super::{Bench, Bucket, MICROSECOND};
use crate::store::Store;

const STEPS: u32 = 2_000;
/// Every so many steps a new key with another limit, so that the reference stays small.
const STEPS_PER_KEY: u32 = 100;

/// 2,000 calls of cost 1 at random moments, under a `max` that falls and rises, with resets and a clock that steps
/// back in between.
pub async fn random_calls_agree_with_the_reference<S: Store>(bench: Bench<S>) {
    Box::pin(random_calls(&bench, 1, 0x5eed)).await;
}

/// 2,000 calls of random weight at random moments.
pub async fn random_weights_agree_with_the_reference<S: Store>(bench: Bench<S>) {
    Box::pin(random_calls(&bench, 5, 0xfeed)).await;
}

async fn random_calls<S: Store>(bench: &Bench<S>, heaviest: u64, seed: u64) {
    let mut random = Random(seed);
    for nth in 0..STEPS / STEPS_PER_KEY {
        let window = Duration::from_micros(random.within(20_000_000, 3_600_000_000));
        let base = random.within(heaviest, heaviest * 10);
        let mut bucket = bench.bucket(&nth.to_string(), base, window);
        bucket.spread = heaviest - 1;
        let mut wait = MICROSECOND;
        for _ in 0..STEPS_PER_KEY {
            let tick = random.within(heaviest, heaviest + 1_000);
            let ahead = match random.within(0, 9) {
                0 => wait.saturating_sub(MICROSECOND),
                1 | 2 => wait,
                3 => Duration::from_micros(random.within(0, 2 * bucket.limit.window_us())),
                4 | 5 => Duration::ZERO,
                _ => Duration::from_micros(random.within(0, bucket.limit.window_us() / base)),
            };
            // Calls that are closer than their weights are ties.
            bucket.advance(ahead.max(if ahead == wait { wait } else { Duration::from_micros(tick) }));
            if random.within(0, 4) == 0 {
                bucket.limit = bucket.limit.with_max(random.within(heaviest, base + heaviest));
            }
            let cost = random.within(1, heaviest);
            let verdict = match random.within(0, 49) {
                0 => {
                    bucket.reset().await;
                    continue;
                }
                1..10 => bucket.peek_cost(cost).await,
                _ => bucket.acquire_cost(cost).await,
            };
            wait = verdict.retry_after().max(Duration::from_micros(heaviest));
        }
        step_back(&bucket, &mut random).await;
    }
}

/// After a step back the reference still knows what is left: that, and not one more, may be admitted.
async fn step_back<S: Store>(bucket: &Bucket<'_, S>, random: &mut Random) {
    let left = bucket.reference.remaining(bucket.bench.now(), bucket.limit);
    bucket.bench.clock.step_back(Duration::from_micros(random.within(1, 2 * bucket.limit.window_us())));
    let mut admitted = 0;
    for _ in 0..left + 5 {
        admitted += u64::from(bucket.acquire_unwatched().await.allowed);
    }
    assert!(admitted <= left, "{admitted} admitted where {left} were left under {:?}", bucket.limit);
}

/// `SplitMix64`: small, seeded, the same everywhere.
pub(super) struct Random(pub(super) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number between `low` and `high`, both included.
    pub(super) fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }
}
