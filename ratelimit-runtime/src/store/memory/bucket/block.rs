//! [`Block`]: how long a key is refused, by hand or by a rule, and how often in a row.

use crate::rule::BlockDuration;

/// A block by hand or by a rule.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    until: u64,
    /// How many blocks rules have set in a row.
    strikes: u64,
    /// How long strikes are remembered after the block, in microseconds.
    remembered: u64,
}

impl Block {
    /// A block by hand, perhaps after another one, which is no offence.
    pub(super) fn by_hand(duration: u64, last: Option<&Self>, by: BlockDuration, now: u64) -> Self {
        Self {
            until: now.saturating_add(duration),
            ..Self::after(last, by, now)
        }
    }

    /// The block for an offence, when no other lasts. Only a range counts offences.
    pub(super) fn of_offence(by: BlockDuration, last: Option<&Self>, now: u64) -> Self {
        let last = Self::after(last, by, now);
        let until =
            now.saturating_add(by.after(if by.longest_us() > 0 { last.strikes } else { 0 }));
        Self {
            until,
            strikes: last.strikes + u64::from(by.longest_us() > 0),
            ..last
        }
    }

    /// The strikes that are left of an earlier block. Only a rule with a range forgets strikes, or
    /// says for how long they are remembered.
    fn after(last: Option<&Self>, by: BlockDuration, now: u64) -> Self {
        let strikes = last.map_or(0, |last| last.strikes(by, now));
        let remembered = if by.longest_us() > 0 {
            by.longest_us()
        } else {
            last.map_or(0, |last| last.remembered)
        };
        Self {
            until: 0,
            strikes,
            remembered,
        }
    }

    /// How long the block lasts from `now` on, in microseconds.
    #[inline]
    pub(super) fn left(&self, now: u64) -> u64 {
        self.until.saturating_sub(now)
    }

    /// How many blocks in a row count for a rule with this block.
    pub(super) fn strikes(&self, by: BlockDuration, now: u64) -> u64 {
        let remembered = if by.longest_us() > 0 {
            by.longest_us()
        } else {
            self.remembered
        };
        if now < self.until.saturating_add(remembered) {
            self.strikes
        } else {
            0
        }
    }

    /// Whether block and strikes are over.
    pub(super) fn is_void(&self, now: u64) -> bool {
        let remembered = if self.strikes > 0 { self.remembered } else { 0 };
        now >= self.until.saturating_add(remembered)
    }
}
