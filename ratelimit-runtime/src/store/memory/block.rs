//! [`Block`]: how long a key is refused, by hand or by a rule, and how often it was in a row.

use crate::rule::BlockDuration;

/// A block by hand or by a rule. Neither a clock that steps back nor a call shortens or extends it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    until: u64,
    duration: u64,
    /// How many blocks rules have set in a row.
    strikes: u64,
    /// How long they are remembered after it.
    remembered: u64,
}

impl Block {
    /// A block by hand, after another one perhaps: that is no offence.
    pub(super) fn by_hand(duration: u64, last: Option<&Self>, by: BlockDuration, now: u64) -> Self {
        let strikes = last.map_or(0, |last| last.strikes(by, now));
        Self { until: now.saturating_add(duration), duration, strikes, remembered: by.longest_us() }
    }

    /// The block for an offence, when no other lasts.
    pub(super) fn of_offence(by: BlockDuration, last: Option<&Self>, now: u64) -> Self {
        let strikes = last.map_or(0, |last| last.strikes(by, now));
        let duration = by.after(strikes);
        let until = now.saturating_add(duration);
        Self { until, duration, strikes: strikes.saturating_add(1), remembered: by.longest_us() }
    }

    /// What is left of it. Where the clock has stepped back to before it began, that is all of it.
    #[inline]
    pub(super) fn left(&self, now: u64) -> u64 {
        if self.until <= now { 0 } else { (self.until - now).min(self.duration) }
    }

    /// The same block, which ends when it does, or as long after `now` as it was given.
    #[inline]
    pub(super) fn advance(&mut self, now: u64) {
        self.until = self.until.min(now.saturating_add(self.duration));
    }

    /// How many blocks in a row count for a rule that blocks for so long.
    pub(super) fn strikes(&self, by: BlockDuration, now: u64) -> u64 {
        if now < self.until.saturating_add(by.longest_us()) { self.strikes } else { 0 }
    }

    /// Whether nothing of it matters any more.
    pub(super) fn is_void(&self, now: u64) -> bool {
        let remembered = if self.strikes > 0 { self.remembered } else { 0 };
        now >= self.until.saturating_add(remembered)
    }
}
