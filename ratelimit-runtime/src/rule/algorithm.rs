//! [`Algorithm`]: how a limit is kept, and what the [table](crate::__algorithms) says of it.

use std::fmt;

use super::limit::Limit;

/// The properties of an algorithm, as the table states them.
#[cfg_attr(
    not(feature = "redis"),
    allow(dead_code, reason = "some of it concerns Redis")
)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    /// As attributes and configurations write it.
    pub(crate) name: &'static str,
    /// Whether it keeps an entry for each unit of cost: a ticket names one entry, the tickets of a
    /// call are consecutive, and Redis has a choice of layouts. The others keep sums.
    pub(crate) is_log: bool,
    /// Whether a limit admits its burst at once, and not its `max`.
    pub(crate) has_burst: bool,
    /// For how many windows a charge counts at most. With a burst: for the time in which the bucket
    /// refills, if that is longer.
    pub(crate) windows: u64,
    /// The abbreviation in stored keys.
    pub(crate) tag: &'static str,
    /// The number in the questions to a script: 1 to 15, frozen with the format.
    pub(crate) number: u8,
}

macro_rules! algorithms {
    ($($(#[$attribute:meta])* $variant:ident $module:ident $state:tt { $($row:tt)* })*) => {
        /// How a limit is kept. As text it is what attributes and configurations write:
        /// `sliding_window`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        #[non_exhaustive]
        pub enum Algorithm {
            $($(#[$attribute])* $variant,)*
        }

        impl Algorithm {
            /// All of them.
            #[doc(hidden)]
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its row of the table.
            #[inline]
            pub(crate) const fn row(self) -> Row {
                match self {
                    $(Self::$variant => Row { name: stringify!($module), $($row)* },)*
                }
            }
        }
    };
}

crate::__algorithms!(algorithms);

impl Algorithm {
    /// Whether the burst of a limit applies: see [`Limit::with_burst`]. Without a burst, `max` is
    /// admitted at once.
    #[must_use]
    #[inline]
    pub const fn has_burst(self) -> bool {
        self.row().has_burst
    }

    /// How much `limit` admits at once while unused: its `max`, or the burst of a bucket.
    #[inline]
    pub(crate) const fn capacity(self, limit: &Limit) -> u64 {
        if self.has_burst() {
            limit.capacity()
        } else {
            limit.max()
        }
    }

    /// The highest cost of one call where each unit of cost is kept by itself: that many units keep
    /// a Redis server busy for some two milliseconds.
    pub(crate) const MOST_IN_LOG: u64 = 1_000;

    /// The highest cost of one call under `limit`.
    #[inline]
    pub(crate) const fn most_at_once(self, limit: &Limit) -> u64 {
        let capacity = self.capacity(limit);
        if self.row().is_log && capacity > Self::MOST_IN_LOG {
            Self::MOST_IN_LOG
        } else {
            capacity
        }
    }

    /// How long anything written under `limit` may live, in microseconds.
    #[inline]
    pub(crate) const fn horizon_us(self, limit: &Limit) -> u64 {
        if !self.has_burst() || limit.capacity() == limit.max() {
            return self.row().windows * limit.longest_us();
        }
        let full = limit.capacity() as u128 * limit.window_us() as u128;
        let max = if limit.max() == 0 { 1 } else { limit.max() };
        let horizon = full.div_ceil(max as u128);
        #[allow(clippy::cast_possible_truncation, reason = "`try_from` is not const")]
        if horizon > u64::MAX as u128 {
            u64::MAX
        } else {
            horizon as u64
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.row().name)
    }
}
