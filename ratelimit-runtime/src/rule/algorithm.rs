//! [`Algorithm`]: how the limits of a rule are kept, and its row of the
//! [table](crate::__algorithms).

use std::fmt;

use super::limit::Limit;

/// The properties of an algorithm: its row of the table.
#[cfg_attr(
    not(feature = "redis"),
    allow(dead_code, reason = "some of it concerns Redis")
)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    /// The name that attributes and configurations write.
    pub(crate) name: &'static str,
    /// `true` if it keeps an entry for each unit of cost: a ticket names one entry, the tickets of
    /// a call are consecutive, and Redis has a choice of layouts. Other algorithms keep sums.
    pub(crate) is_log: bool,
    /// `true` if a limit admits its burst at once, and not its `max`.
    pub(crate) has_burst: bool,
    /// The number of windows for which a charge counts at most. With a burst other than `max`, it
    /// counts until a full bucket has drained.
    pub(crate) windows: u64,
    /// The abbreviation in stored keys.
    pub(crate) tag: &'static str,
    /// The number in the questions to a script: 1 to 15, frozen with the stored format.
    pub(crate) number: u8,
}

macro_rules! algorithms {
    ($($(#[$attribute:meta])* $variant:ident $module:ident $state:tt { $($row:tt)* })*) => {
        /// The algorithm that keeps limits. Its text is what attributes and configurations write:
        /// `sliding_window`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        #[non_exhaustive]
        pub enum Algorithm {
            $($(#[$attribute])* $variant,)*
        }

        impl Algorithm {
            /// All algorithms.
            #[doc(hidden)]
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The row of the table for this algorithm.
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
    /// `true` of a bucket algorithm, under which a limit admits its burst at once: see
    /// [`Limit::with_burst`].
    #[must_use]
    #[inline]
    pub const fn has_burst(self) -> bool {
        self.row().has_burst
    }

    /// The mistake in a burst under another algorithm than a bucket.
    pub(crate) fn lacks_burst(self) -> String {
        format!("`{self}` has no burst: only the bucket algorithms have one")
    }

    /// The cost that `limit` admits at once while unused: its `max`, or the burst of a bucket.
    #[inline]
    pub(crate) const fn capacity(self, limit: &Limit) -> u64 {
        if self.has_burst() {
            limit.capacity()
        } else {
            limit.max()
        }
    }

    /// The highest cost of one call if each unit of cost is kept by itself: as many units keep a
    /// Redis server busy for some two milliseconds.
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

    /// The longest life of anything written under `limit`, in microseconds.
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
