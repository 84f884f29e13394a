//! [`Verdict`]: what a store decides.

use std::time::Duration;

/// What a store answers to [`acquire`](super::Store::acquire) and [`peek`](super::Store::peek). All times are in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Verdict {
    /// Whether the request is admitted.
    pub allowed: bool,
    /// Which limit decided: of those that refuse the one with the longest wait; else the one with the least left.
    pub limit_index: usize,
    /// What is left of that limit, after the charge.
    pub remaining: u64,
    /// Zero when admitted; else when this request would be admitted by all its limits.
    pub retry_after_us: u64,
    /// When the deciding limit is whole again.
    pub reset_after_us: u64,
    /// What names this admission to [`Store::refund`](super::Store::refund) and the like; 0 if nothing was charged.
    pub ticket: u64,
    /// Whether a block refused, and not a limit.
    pub blocked: bool,
    /// Whether `retry_after_us` is rounded up, to whole seconds perhaps: the request may be admitted earlier.
    pub rounded: bool,
    /// Whether a layer answered that had seen the store refuse the same, and not the store itself.
    pub cached: bool,
    /// Of a refusal by a block: how long that goes on, in microseconds; 0 where that is not known, or is more than an hour.
    /// Of another: [`RESERVED`] where open reservations refuse, which may be released at any moment, so that `retry_after_us` is a
    /// guess that stays the same. As small as this, it takes no more room.
    pub(crate) holds: u32,
}

const RESERVED: u32 = u32::MAX;

impl Verdict {
    /// The verdict on a request of one limit.
    #[inline]
    pub fn new(allowed: bool, remaining: u64, retry_after_us: u64, reset_after_us: u64) -> Self {
        Self {
            allowed,
            limit_index: 0,
            remaining,
            retry_after_us,
            reset_after_us,
            ticket: 0,
            blocked: false,
            rounded: false,
            cached: false,
            holds: 0,
        }
    }

    /// The same, decided by the limit with this index.
    #[inline]
    pub fn by_limit(mut self, limit_index: usize) -> Self {
        self.limit_index = limit_index;
        self
    }

    /// The same, naming the admission.
    #[inline]
    pub fn with_ticket(mut self, ticket: u64) -> Self {
        self.ticket = ticket;
        self
    }

    /// The same, as the refusal by a block.
    #[inline]
    pub fn by_block(mut self) -> Self {
        self.blocked = true;
        self
    }

    /// The same, as the refusal by a block that goes on for so long.
    #[inline]
    pub(crate) fn by_block_for(self, block_us: u64) -> Self {
        Self { holds: u32::try_from(block_us).unwrap_or_default(), ..self.by_block() }
    }

    /// The same, as a refusal for which the reservations that are open account.
    #[inline]
    pub(crate) fn by_reservations(self) -> Self {
        Self { holds: RESERVED, ..self }
    }

    /// For how long the same is said of the same question, but for the time that has passed.
    #[inline]
    pub(crate) fn holds_us(&self) -> u64 {
        if self.holds > 0 && self.blocked {
            self.retry_after_us.min(u64::from(self.holds))
        } else {
            self.retry_after_us
        }
    }

    /// How it reads when so much time has passed, which is less than it holds.
    #[inline]
    pub(crate) fn aged(mut self, elapsed_us: u64) -> Self {
        self.reset_after_us = self.reset_after_us.saturating_sub(elapsed_us);
        if self.holds > 0 {
            return self.aged_as_it_holds(elapsed_us);
        }
        self.retry_after_us = self.retry_after_us.saturating_sub(elapsed_us);
        self
    }

    #[cold]
    fn aged_as_it_holds(mut self, elapsed_us: u64) -> Self {
        if self.blocked || self.holds != RESERVED {
            self.retry_after_us = self.retry_after_us.saturating_sub(elapsed_us);
        }
        if self.blocked {
            self.holds = self.holds.saturating_sub(u32::try_from(elapsed_us).unwrap_or(u32::MAX)).max(1);
        }
        self
    }

    /// The same, from a store that does not know the exact moment.
    pub fn rounded_up(mut self) -> Self {
        self.rounded = true;
        self
    }

    /// [`retry_after_us`](Self::retry_after_us) as a duration.
    #[must_use]
    pub fn retry_after(&self) -> Duration {
        Duration::from_micros(self.retry_after_us)
    }

    /// What is left.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.remaining
    }
}
