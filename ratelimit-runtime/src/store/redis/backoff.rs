//! [`Backoff`]: pauses between attempts.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

/// Pauses between attempts: each about twice as long as the one before, up to a longest. Half of
/// each is random, so that clients that fail together do not try again together.
#[derive(Debug, Clone)]
pub(super) struct Backoff {
    shortest: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    pub(super) const fn new(shortest: Duration, longest: Duration) -> Self {
        Self { shortest, longest, next: shortest }
    }

    /// The pause before the next attempt.
    pub(super) fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        pause / 2 + random_part(pause / 2)
    }

    /// Whether there has been no pause since the last reset.
    pub(super) fn is_fresh(&self) -> bool {
        self.next == self.shortest
    }

    /// Begins with the shortest pause again.
    pub(super) fn reset(&mut self) {
        self.next = self.shortest;
    }
}

/// A random part of a pause, evenly from none to all of it.
pub(super) fn random_part(pause: Duration) -> Duration {
    let micros = u64::try_from(pause.as_micros()).unwrap_or(u64::MAX);
    Duration::from_micros(RandomState::new().hash_one(0) % micros.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let mut backoff = Backoff::new(ms(50), ms(300));
        for longest in [50, 100, 200, 300, 300].map(ms) {
            let pause = backoff.pause();
            assert!(pause >= longest / 2 && pause < longest, "{pause:?} of {longest:?}");
        }
        backoff.reset();
        assert!(backoff.is_fresh() && backoff.pause() < ms(50) && !backoff.is_fresh());
    }

    #[test]
    fn parts_are_spread_over_the_pause() {
        let parts: Vec<_> = (0..200).map(|_| random_part(ms(100))).collect();
        assert!(parts.iter().all(|part| *part < ms(100)));
        assert!(parts.iter().any(|part| *part < ms(50)) && parts.iter().any(|part| *part >= ms(50)));
        assert_eq!(random_part(Duration::ZERO), Duration::ZERO);
    }
}
