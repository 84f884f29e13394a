//! [`Limit`]: how many calls are admitted in what time, and the bounds of such numbers.

use std::fmt;
use std::time::Duration;

/// How many limits a rule may have.
pub(super) const MAX_LIMITS: usize = 8;

/// At most `max` in any `window`. As text it is `5/60s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Limit {
    max: u64,
    window_us: u64,
    /// 0: the same as `max`.
    burst: u64,
}

impl Limit {
    /// The longest window: 366 days.
    pub const MAX_WINDOW: Duration = Duration::from_secs(366 * 24 * 60 * 60);

    /// The largest count that a limit or a cost can hold: 2⁵² − 1, so that Redis scripts, which
    /// count in doubles, add two of them exactly. Larger numbers mean this one.
    pub const MAX_COUNT: u64 = (1 << 52) - 1;

    /// At most `max` in any `window`. A `max` of 0 admits nothing; one above
    /// [`MAX_COUNT`](Self::MAX_COUNT) means that.
    ///
    /// # Panics
    ///
    /// If `window` is shorter than a millisecond or longer than [`MAX_WINDOW`](Self::MAX_WINDOW);
    /// in a constant, at compile time.
    #[must_use]
    pub const fn new(max: u64, window: Duration) -> Self {
        match Self::try_new(max, window) {
            Ok(limit) => limit,
            #[allow(clippy::panic, reason = "documented; in a constant it is a compile error")]
            Err(invalid) => panic!("{}", invalid.message()),
        }
    }

    /// At most `max` in any `window`, for a window that is known at run time only.
    ///
    /// # Errors
    ///
    /// If `window` is shorter than a millisecond or longer than [`MAX_WINDOW`](Self::MAX_WINDOW).
    pub const fn try_new(max: u64, window: Duration) -> Result<Self, InvalidLimit> {
        if window.as_millis() == 0 {
            return Err(InvalidLimit::TooShort);
        }
        if window.as_micros() > Self::MAX_WINDOW.as_micros() {
            return Err(InvalidLimit::TooLong);
        }
        #[allow(clippy::cast_possible_truncation, reason = "at most 366 days")]
        let window_us = window.as_micros() as u64;
        Ok(Self { max: 0, window_us, burst: 0 }.with_max(max))
    }

    /// At most `max` in any second.
    #[must_use]
    pub const fn per_second(max: u64) -> Self {
        Self::new(max, Duration::from_secs(1))
    }

    /// At most `max` in any minute.
    #[must_use]
    pub const fn per_minute(max: u64) -> Self {
        Self::new(max, Duration::from_secs(60))
    }

    /// At most `max` in any hour.
    #[must_use]
    pub const fn per_hour(max: u64) -> Self {
        Self::new(max, Duration::from_secs(60 * 60))
    }

    /// At most `max` in any 24 hours.
    #[must_use]
    pub const fn per_day(max: u64) -> Self {
        Self::new(max, Duration::from_secs(24 * 60 * 60))
    }

    /// The same window with another `max`.
    #[must_use]
    pub const fn with_max(mut self, max: u64) -> Self {
        self.max = if max > Self::MAX_COUNT { Self::MAX_COUNT } else { max };
        self
    }

    /// How much a bucket algorithm admits at once; `max` unless set. The other algorithms have no
    /// burst.
    ///
    /// A bucket fills within [`MAX_WINDOW`](Self::MAX_WINDOW): a larger burst is cut to what does.
    ///
    /// # Panics
    ///
    /// If `burst` is 0, which would admit nothing.
    #[must_use]
    pub const fn with_burst(mut self, burst: u64) -> Self {
        assert!(burst > 0, "the burst of a limit is at least 1");
        self.burst = if burst > Self::MAX_COUNT { Self::MAX_COUNT } else { burst };
        self
    }

    /// What a bucket algorithm admits at once: the burst, or `max`; nothing if `max` is 0. The
    /// others admit `max`.
    #[must_use]
    #[inline]
    pub const fn capacity(&self) -> u64 {
        if self.burst == 0 || self.max == 0 {
            return self.max;
        }
        if self.burst <= self.max {
            return self.burst;
        }
        let most = self.max as u128 * Self::MAX_WINDOW.as_micros() / self.window_us as u128;
        #[allow(clippy::cast_possible_truncation, reason = "no more than a burst, which has 64 bits")]
        if most < self.burst as u128 { most as u64 } else { self.burst }
    }

    /// What is admitted in any window.
    #[must_use]
    #[inline]
    pub const fn max(&self) -> u64 {
        self.max
    }

    /// The window.
    #[must_use]
    pub const fn window(&self) -> Duration {
        Duration::from_micros(self.window_us)
    }

    /// The window in microseconds.
    #[must_use]
    #[inline]
    pub const fn window_us(&self) -> u64 {
        self.window_us
    }
}

/// Why a [`Limit`] could not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InvalidLimit {
    /// The window is shorter than a millisecond.
    TooShort,
    /// The window is longer than [`Limit::MAX_WINDOW`].
    TooLong,
}

impl InvalidLimit {
    const fn message(self) -> &'static str {
        match self {
            Self::TooShort => "the window of a limit is at least one millisecond",
            Self::TooLong => "the window of a limit is at most 366 days",
        }
    }
}

impl fmt::Display for InvalidLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for InvalidLimit {}
