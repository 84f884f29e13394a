//! [`TokioClock`]: the clock of stores in memory, unless they are given another.

use std::fmt;
use std::time::Duration;

use super::{Clock, SystemClock};

/// The monotonic clock of the process, as tokio sees it: under
/// `#[tokio::test(start_paused = true)]` it stands still until the test moves it with
/// `tokio::time::advance`. Each process has its own.
///
/// It counts from 1970, by the machine's clock when the value was made. Setting the machine's clock
/// later does not move it.
#[derive(Clone)]
pub struct TokioClock {
    anchor: tokio::time::Instant,
    /// The time of the anchor since 1970, at least a day, in whole seconds: adding to them is fast.
    seconds: u64,
}

impl TokioClock {
    /// A clock that counts from now on.
    #[must_use]
    pub fn new() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        let (now, since) = (tokio::time::Instant::now(), SystemClock.now().max(DAY));
        let into_second = Duration::from_nanos(since.subsec_nanos().into());
        match now.checked_sub(into_second) {
            Some(anchor) => Self {
                anchor,
                seconds: since.as_secs(),
            },
            None => Self {
                anchor: now,
                seconds: since.as_secs(),
            },
        }
    }
}

impl TokioClock {
    /// The time before the anchor, which a paused clock of another runtime may show.
    #[cold]
    fn before_anchor(&self, now: &tokio::time::Instant) -> Duration {
        Duration::from_secs(self.seconds)
            .saturating_sub(self.anchor.saturating_duration_since(*now))
    }
}

impl Default for TokioClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Duration {
        let now = tokio::time::Instant::now();
        match now.checked_duration_since(self.anchor) {
            // Not `+`, which would check twice that the sum is in bounds.
            Some(since) => Duration::new(self.seconds + since.as_secs(), since.subsec_nanos()),
            None => self.before_anchor(&now),
        }
    }
}

impl fmt::Debug for TokioClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokioClock")
    }
}
