//! A clock that tests move, so that they need not sleep.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use crate::clock::Clock;

/// A clock that stands still until it is told to move. Clones share their time.
#[derive(Debug, Clone)]
pub struct FakeClock {
    micros: Arc<AtomicU64>,
}

impl FakeClock {
    /// A clock that shows 14 November 2023, 22:13:20 UTC.
    #[must_use]
    pub fn new() -> Self {
        Self {
            micros: Arc::new(AtomicU64::new(1_700_000_000_000_000)),
        }
    }

    /// Sets the clock to this time, forward or back, in whole microseconds; at least to 1970.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use ratelimit_runtime::testkit::FakeClock;
    ///
    /// let clock = FakeClock::new();
    /// clock.set(SystemTime::UNIX_EPOCH + Duration::from_secs(1_792_872_000));
    /// assert_eq!(clock.now(), Duration::from_secs(1_792_872_000));
    /// ```
    pub fn set(&self, time: impl Into<SystemTime>) {
        let since_1970 = time
            .into()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        self.micros.store(micros(since_1970), Ordering::SeqCst);
    }

    /// The time since 1970 that it shows.
    #[must_use]
    pub fn now(&self) -> Duration {
        Duration::from_micros(self.micros.load(Ordering::SeqCst))
    }

    /// Moves the clock forward by `by`, in whole microseconds; at most to the latest time that it
    /// can show.
    pub fn advance(&self, by: Duration) {
        self.step(|now| now.saturating_add(micros(by)));
    }

    /// Moves the clock back by `by`, as a fail-over to a server whose clock is behind does; at most
    /// to zero.
    pub fn step_back(&self, by: Duration) {
        self.step(|now| now.saturating_sub(micros(by)));
    }

    fn step(&self, to: impl Fn(u64) -> u64) {
        let _ = self
            .micros
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |now| Some(to(now)));
    }
}

impl Default for FakeClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Duration {
        self.now()
    }
}

fn micros(by: Duration) -> u64 {
    u64::try_from(by.as_micros()).unwrap_or(u64::MAX)
}
