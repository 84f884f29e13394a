//! What a second thread adds, in time: printed, because it depends on the machine.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use ratelimit_runtime::store::Request;
use ratelimit_runtime::{Algorithm, Limit, MemoryStore, RateLimiter, Store as _};

use super::repeat;
use crate::ours;

const CHECKS: u64 = 1_000_000;

/// Checks per second of two threads on keys of their own, as a multiple of one thread's: of the
/// store, and by the attribute with an installed limiter.
///
/// # Panics
///
/// If the store does not answer at once.
#[must_use]
pub fn scaling() -> (f64, f64) {
    let store = MemoryStore::new();
    let limits = [Limit::per_minute(100)];
    let of_store = of_two(|key| {
        for _ in 0..CHECKS {
            let answer = store.acquire(Request::new(key.as_bytes(), Algorithm::LeakyBucket, &limits));
            assert!(answer.known().is_ok());
        }
    });
    RateLimiter::memory().install();
    let by_attribute = of_two(|key| {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(repeat(CHECKS, || ours::leaky(key)));
    });
    (of_store, by_attribute)
}

fn of_two(work: impl Fn(&str) + Sync) -> f64 {
    let best = |threads: usize| (0..5).map(|_| time(threads, &work)).min().unwrap_or_default();
    2.0 * best(1).as_secs_f64() / best(2).as_secs_f64()
}

fn time(threads: usize, work: impl Fn(&str) + Sync) -> Duration {
    let start = Barrier::new(threads + 1);
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                let (start, work) = (&start, &work);
                scope.spawn(move || {
                    start.wait();
                    work(&format!("alice+{thread}@example.com"));
                })
            })
            .collect();
        start.wait();
        let began = Instant::now();
        for thread in running {
            thread.join().unwrap();
        }
        began.elapsed()
    })
}
