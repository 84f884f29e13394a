//! [`BlockDuration`]: how long a refusal blocks a key.

use std::time::Duration;

use super::limit::Limit;

/// The time for which a refusal by the limits blocks a key: not at all, always for one time, or
/// twice as long with each offence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct BlockDuration {
    /// The first block, in microseconds; 0 for none.
    first_us: u64,
    /// The longest block, above `first_us`, in microseconds; 0 if blocks do not grow.
    longest_us: u64,
}

impl BlockDuration {
    pub(crate) const NONE: Self = Self {
        first_us: 0,
        longest_us: 0,
    };

    /// Each block lasts `duration`, at most [`Limit::MAX_WINDOW`].
    #[inline]
    pub(crate) const fn fixed(duration: Duration) -> Self {
        if duration.is_zero() {
            Self::NONE
        } else {
            Self {
                first_us: micros(duration),
                longest_us: 0,
            }
        }
    }

    /// The first block lasts `first`, each further one twice as long, up to `longest`. If `longest`
    /// is not above `first`, blocks do not grow.
    pub(crate) const fn growing(first: Duration, longest: Duration) -> Self {
        let (fixed, longest_us) = (Self::fixed(first), micros(longest));
        if fixed.first_us > 0 && longest_us > fixed.first_us {
            Self {
                longest_us,
                ..fixed
            }
        } else {
            fixed
        }
    }

    /// `true` if blocks grow, up to [`Limit::MAX_WINDOW`] at most.
    pub(crate) const fn is_range(first: Duration, longest: Duration) -> bool {
        longest.as_nanos() <= Limit::MAX_WINDOW.as_nanos()
            && Self::growing(first, longest).longest_us > 0
    }

    /// The block for a call that is never refused: the call sets no block, and forgets no offence.
    #[inline]
    pub(crate) const fn without_offences(self) -> Self {
        Self {
            first_us: 0,
            ..self
        }
    }

    #[inline]
    pub(crate) const fn first_us(self) -> u64 {
        self.first_us
    }

    /// The longest block in microseconds, which is also how long offences are remembered after the
    /// last one; 0 if blocks do not grow.
    #[inline]
    pub(crate) const fn longest_us(self) -> u64 {
        self.longest_us
    }

    pub(crate) const fn first(self) -> Duration {
        Duration::from_micros(self.first_us)
    }

    /// The next block after `strikes` offences in a row, in microseconds.
    pub(crate) fn after(self, strikes: u64) -> u64 {
        let doubled = u32::try_from(strikes)
            .ok()
            .and_then(|strikes| 1_u64.checked_shl(strikes))
            .unwrap_or(u64::MAX);
        self.first_us
            .saturating_mul(doubled)
            .min(self.longest_us.max(self.first_us))
    }
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "a year in microseconds has 45 bits; `try_from` is not const"
)]
const fn micros(duration: Duration) -> u64 {
    let (given, most) = (
        duration.as_nanos().div_ceil(1_000),
        Limit::MAX_WINDOW.as_micros(),
    );
    if given < most {
        given as u64
    } else {
        most as u64
    }
}
