//! [`Algorithm`]: how a limit is kept.

use std::fmt;

use super::limit::Limit;

/// How a limit is kept. As text it is what attributes and configurations write: `sliding_window`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Algorithm {
    /// A log of every admission: exact.
    #[default]
    SlidingWindow,
    /// Two counters, the last window's weighted: O(1) memory; up to `2·max − 1` in an interval of one window.
    SlidingCounter,
    /// One counter per window, begun by the first call: up to `2·max` in an interval of one window.
    FixedWindow,
    /// A bucket of `burst` tokens, refilled at `max` per window: up to `burst + max − 1` in one window.
    TokenBucket,
    /// The generic cell rate algorithm: `max` per window evenly, `burst` at once; up to `burst + max − 1`.
    LeakyBucket,
}

impl Algorithm {
    /// All of them.
    pub const ALL: &'static [Self] =
        &[Self::SlidingWindow, Self::SlidingCounter, Self::FixedWindow, Self::TokenBucket, Self::LeakyBucket];

    const fn name(self) -> &'static str {
        match self {
            Self::SlidingWindow => "sliding_window",
            Self::SlidingCounter => "sliding_counter",
            Self::FixedWindow => "fixed_window",
            Self::TokenBucket => "token_bucket",
            Self::LeakyBucket => "leaky_bucket",
        }
    }

    /// The abbreviation of the algorithm in stored keys.
    pub(crate) const fn tag(self) -> &'static str {
        match self {
            Self::SlidingWindow => "sw",
            Self::SlidingCounter => "sc",
            Self::FixedWindow => "fw",
            Self::TokenBucket => "tb",
            Self::LeakyBucket => "lb",
        }
    }

    /// What one call may cost at most under `limit`.
    #[inline]
    pub(crate) const fn capacity(self, limit: &Limit) -> u64 {
        match self {
            Self::TokenBucket | Self::LeakyBucket => limit.capacity(),
            _ => limit.max(),
        }
    }

    /// How long anything written under `limit` may live, in microseconds.
    #[inline]
    pub(crate) const fn horizon_us(self, limit: &Limit) -> u64 {
        match self {
            Self::SlidingWindow | Self::FixedWindow => limit.window_us(),
            Self::SlidingCounter => 2 * limit.window_us(),
            Self::TokenBucket | Self::LeakyBucket if limit.capacity() == limit.max() => limit.window_us(),
            Self::TokenBucket | Self::LeakyBucket => {
                let full = limit.capacity() as u128 * limit.window_us() as u128;
                let max = if limit.max() == 0 { 1 } else { limit.max() };
                let horizon = full.div_ceil(max as u128);
                #[allow(clippy::cast_possible_truncation, reason = "`try_from` is not const")]
                if horizon > u64::MAX as u128 { u64::MAX } else { horizon as u64 }
            }
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
