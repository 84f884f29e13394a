//! [`Clock`]: where a store takes its time from, if not from a server.

use std::fmt;
use std::time::{Duration, SystemTime};

/// A clock that a store reads once per decision.
pub trait Clock: Send + Sync + 'static {
    /// The time since some fixed moment. It should not step back; a store survives it when it does.
    fn now(&self) -> Duration;
}

impl<C: Clock + ?Sized> Clock for std::sync::Arc<C> {
    fn now(&self) -> Duration {
        (**self).now()
    }
}

/// A clock that every process reads alike, as [`SystemClock`] is: a store that processes share
/// takes its time from no other kind.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a clock that all processes read alike",
    label = "not a `WallClock`",
    note = "processes that share a store have to agree on the time: take `SystemClock`, or \
        implement `WallClock` for a clock that counts from a moment common to all"
)]
pub trait WallClock: Clock {}

impl<C: WallClock + ?Sized> WallClock for std::sync::Arc<C> {}

/// The time since 1970, by the clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default()
    }
}

impl WallClock for SystemClock {}

/// The monotonic clock of the process, as tokio sees it: under `#[tokio::test(start_paused =
/// true)]` it stands still until the test moves it with `tokio::time::advance`. Each process has
/// its own.
///
/// It counts from 1970, by the clock of the machine at the time when this one was made. Setting the
/// machine's clock later does not move this one.
#[derive(Clone)]
pub struct TokioClock {
    anchor: tokio::time::Instant,
    /// The time of the anchor since 1970, at least a day, in whole seconds: adding to them is fast.
    seconds: u64,
}

impl TokioClock {
    /// A clock that starts now.
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
    /// A paused clock of another runtime may read earlier.
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
