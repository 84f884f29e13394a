//! What a check takes in time where there are more keys than the caches hold: printed, because it
//! depends on the machine.

use std::time::Instant;

use ratelimit_runtime::{MemoryStore, RateLimiter};

use super::governor::Governor;
use super::repeat;
use crate::ours;

const KEYS: usize = 50_000;
/// Rounds in which keys come, and such in which all are known.
const NEW: usize = 2;
const ROUNDS: usize = 15;
/// Visits keys in an order that no cache foresees: it has no divisor in common with their number.
const STRIDE: usize = 15_013;

/// Nanoseconds of a check over 50,000 keys by `governor`, by the bucket and by the log: the median
/// of rounds that take turns.
///
/// # Panics
///
/// If a check is refused.
#[must_use]
pub fn over_many_keys() -> [(&'static str, f64); 3] {
    RateLimiter::with_store(MemoryStore::with_capacity(4 * KEYS)).install();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let governor = Governor::new(false);
    let users: Vec<String> = (0..KEYS).map(|user| format!("user{user:05}")).collect();
    let user = |check: usize| users.get(check * STRIDE % KEYS).unwrap().as_str();
    let check_all = |side: usize| {
        let (mut check, began) = (0, Instant::now());
        let mut next = || {
            check += 1;
            user(check)
        };
        let checks = KEYS as u64;
        let admitted = match side {
            0 => runtime.block_on(repeat(checks, async || governor.check(next()))),
            1 => runtime.block_on(repeat(checks, async || ours::leaky(next()).await)),
            _ => runtime.block_on(repeat(checks, async || ours::sliding(next()).await)),
        };
        assert_eq!(admitted, checks);
        began.elapsed().as_secs_f64() * 1e9 / 50_000.0
    };
    let mut rounds: [Vec<f64>; 3] = Default::default();
    for _ in 0..NEW + ROUNDS {
        rounds.iter_mut().enumerate().for_each(|(side, rounds)| rounds.push(check_all(side)));
    }
    let [governor, leaky, sliding] = rounds.map(|mut rounds| {
        let mut known = rounds.split_off(NEW);
        known.sort_by(f64::total_cmp);
        known.get(ROUNDS / 2).copied().unwrap()
    });
    [("governor", governor), ("the leaky bucket", leaky), ("the sliding window", sliding)]
}
