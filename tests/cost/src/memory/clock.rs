//! [`Ticking`]: makes every run see the same times, at the price of a real clock.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ratelimit_runtime::__private::TokioClock;
use ratelimit_runtime::clock::Clock;

/// Reads a clock so many times, as a store does; says how many times it did.
pub(crate) fn read(clock: &dyn Clock, times: u64) -> u64 {
    for _ in 0..times {
        black_box(black_box(clock).now());
    }
    times
}

/// A clock that moves on by one step whenever it is read. It reads the default clock too, for what
/// that costs. One thread at a time reads it.
#[derive(Debug, Clone)]
pub(crate) struct Ticking {
    real: TokioClock,
    micros: Arc<AtomicU64>,
    step: Arc<AtomicU64>,
}

impl Ticking {
    /// By a microsecond.
    pub(crate) fn new() -> Self {
        let start = 1_700_000_000_000_000;
        Self {
            real: TokioClock::new(),
            micros: Arc::new(AtomicU64::new(start)),
            step: Arc::new(AtomicU64::new(1)),
        }
    }

    pub(crate) fn tick_by(&self, step: Duration) {
        self.step
            .store(u64::try_from(step.as_micros()).unwrap(), Ordering::Relaxed);
    }
}

impl Clock for Ticking {
    fn now(&self) -> Duration {
        black_box(self.real.now());
        let now = self.micros.load(Ordering::Relaxed) + self.step.load(Ordering::Relaxed);
        self.micros.store(now, Ordering::Relaxed);
        Duration::from_micros(now)
    }
}
