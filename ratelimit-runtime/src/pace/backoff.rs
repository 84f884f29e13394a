//! [`Backoff`]: pauses between attempts, so that clients do not flood a server that is down, and do
//! not come back all at once.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

/// Pauses between attempts, each about twice as long as the one before, up to `longest`. Half of
/// each is random, so that clients that fail together do not try again together.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    shortest: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    pub(crate) const fn new(shortest: Duration, longest: Duration) -> Self {
        Self {
            shortest,
            longest,
            next: shortest,
        }
    }

    /// The pause before the next attempt.
    pub(crate) fn pause(&mut self) -> Duration {
        let half = self.next / 2;
        self.next = (self.next * 2).min(self.longest);
        let micros = u64::try_from(half.as_micros()).unwrap_or(u64::MAX);
        half + Duration::from_micros(RandomState::new().hash_one(0) % micros.max(1))
    }

    /// `true` if there was no pause since the last reset.
    pub(crate) fn is_fresh(&self) -> bool {
        self.next == self.shortest
    }

    /// Makes the next pause the shortest again.
    pub(crate) fn reset(&mut self) {
        self.next = self.shortest;
    }
}
