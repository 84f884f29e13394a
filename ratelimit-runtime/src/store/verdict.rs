//! [`Verdict`]: the decision of a store.

use std::time::Duration;

use crate::decision::NEVER_US;

/// The answer of a store to [`acquire`](super::Store::acquire) and [`peek`](super::Store::peek): a
/// store begins with [`admitted`](Self::admitted) or [`refused`](Self::refused), and sets the
/// fields that differ. All times are in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Verdict {
    /// `true` if the request is admitted.
    pub allowed: bool,
    /// The index of the limit that decided: the refusing limit with the longest wait, else the
    /// limit with the least left.
    pub limit_index: usize,
    /// The cost left in the deciding limit, after the charge.
    pub remaining: u64,
    /// Zero if admitted; else the time until all limits would admit this request, or
    /// [`NEVER`](Self::NEVER).
    pub retry_after_us: u64,
    /// The time until the deciding limit is unused, if no other call arrives.
    pub reset_after_us: u64,
    /// The name of this charge for [`Store::refund`](super::Store::refund) and
    /// [`Store::settle`](super::Store::settle): its time by the store's clock, in microseconds. In
    /// a sliding window, the time of its first unit of cost; the next units have the next
    /// microseconds. 0 if nothing was charged.
    pub ticket: u64,
    /// `true` if a block refused, and not a limit.
    pub blocked: bool,
    /// `true` if a layer answers without asking the store: it repeats a refusal, or admits from
    /// units that it has taken ahead.
    pub cached: bool,
    /// `true` if `retry_after_us` is rounded up to whole seconds: the request may be admitted
    /// earlier.
    pub(crate) rounded: bool,
    /// The rest of the refusing block, in microseconds; [`u32::MAX`], some 71 minutes, for a longer
    /// one. 0 if no block refuses, or a store of another crate refuses by one.
    pub(crate) holds: u32,
}

/// The outcome of [`Store::settle`](super::Store::settle).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Settled {
    /// `true` if the reservation was open. A store that keeps only sums cannot tell reservations
    /// apart, and reports any that may be open.
    pub was_open: bool,
    /// The part of the actual cost that was not charged, because more than twice the capacity of a
    /// limit would be used.
    pub dropped: u64,
}

impl Settled {
    /// The outcome: whether the reservation was open, and the part of the cost that was not
    /// charged.
    #[must_use]
    pub const fn new(was_open: bool, dropped: u64) -> Self {
        Self { was_open, dropped }
    }
}

impl Verdict {
    /// [`retry_after_us`](Self::retry_after_us) of a refusal that does not end by waiting. No
    /// longer wait can be expressed.
    pub const NEVER: u64 = NEVER_US;

    const ADMITTED: Self = Self {
        allowed: true,
        limit_index: 0,
        remaining: 0,
        retry_after_us: 0,
        reset_after_us: 0,
        ticket: 0,
        blocked: false,
        rounded: false,
        cached: false,
        holds: 0,
    };

    const REFUSED: Self = Self {
        allowed: false,
        retry_after_us: Self::NEVER,
        ..Self::ADMITTED
    };

    /// An admission by the first limit, with nothing left, reset at once unless set otherwise.
    #[inline]
    pub const fn admitted() -> Self {
        Self::ADMITTED
    }

    /// A refusal by the first limit, which does not end by waiting unless
    /// [`retry_after_us`](Self::retry_after_us) is set.
    ///
    /// ```
    /// use std::time::Duration;
    /// use ratelimit_runtime::store::Verdict;
    ///
    /// let mut refused = Verdict::refused();
    /// assert_eq!(refused.retry_after(), None);
    /// refused.retry_after_us = 9_000_000;
    /// assert_eq!(refused.retry_after(), Some(Duration::from_secs(9)));
    /// ```
    #[inline]
    pub const fn refused() -> Self {
        Self::REFUSED
    }

    /// The verdict as a refusal by a block that goes on for `block_us` microseconds.
    #[inline]
    pub(crate) fn by_block_for(self, block_us: u64) -> Self {
        Self {
            holds: u32::try_from(block_us).unwrap_or(u32::MAX),
            blocked: true,
            ..self
        }
    }

    /// The microseconds for which the same request has this verdict; only its times count down.
    #[cfg(feature = "redis")]
    #[inline]
    pub(crate) fn holds_us(&self) -> u64 {
        match self.holds {
            // A longer block refuses, or the limits do.
            0 | u32::MAX => self.retry_after_us,
            holds => self.retry_after_us.min(u64::from(holds)),
        }
    }

    /// A refusal by a block, until that ends: the limits may admit then.
    #[cfg(feature = "redis")]
    #[cold]
    pub(crate) fn by_block_alone(self) -> Self {
        Self {
            retry_after_us: self.retry_after_us.min(u64::from(self.holds)),
            ..self
        }
    }

    /// The verdict after `elapsed_us`, which is less than `holds_us`.
    #[cfg(feature = "redis")]
    #[inline]
    pub(crate) fn aged(mut self, elapsed_us: u64) -> Self {
        debug_assert!(
            elapsed_us < self.holds_us(),
            "it is repeated while it holds"
        );
        self.reset_after_us = self.reset_after_us.saturating_sub(elapsed_us);
        if self.holds > 0 || self.retry_after_us == Self::NEVER {
            return self.aged_as_it_holds(elapsed_us);
        }
        self.retry_after_us = self.retry_after_us.saturating_sub(elapsed_us);
        self
    }

    #[cfg(feature = "redis")]
    #[cold]
    fn aged_as_it_holds(mut self, elapsed_us: u64) -> Self {
        if self.retry_after_us != Self::NEVER {
            self.retry_after_us = self.retry_after_us.saturating_sub(elapsed_us);
        }
        if self.holds > 0 {
            self.holds = self
                .holds
                .saturating_sub(u32::try_from(elapsed_us).unwrap_or(u32::MAX))
                .max(1);
        }
        self
    }

    #[cfg(feature = "_tests")]
    #[doc(hidden)]
    pub fn rounded(self) -> Self {
        Self {
            rounded: true,
            ..self
        }
    }

    /// The time until this request would be admitted; `None` for an admission, and for a refusal
    /// that does not end by waiting.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        let ends = !self.allowed && self.retry_after_us != Self::NEVER;
        ends.then(|| Duration::from_micros(self.retry_after_us))
    }
}
