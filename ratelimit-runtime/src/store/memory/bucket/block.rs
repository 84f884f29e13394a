//! [`Block`]: the block of a key, by hand or by a rule, and the number of blocks in a row.

use crate::rule::BlockDuration;

/// The block of a key, by hand or by a rule.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    until: u64,
    /// The number of blocks in a row that rules have set.
    strikes: u64,
    /// The time for which strikes are remembered after the block, in microseconds.
    remembered: u64,
}

impl Block {
    /// A block by hand, which is no offence, perhaps after another block.
    pub(super) fn by_hand(duration: u64, last: Option<&Self>, by: BlockDuration, now: u64) -> Self {
        Self {
            until: now.saturating_add(duration),
            ..Self::after(last, by, now)
        }
    }

    /// The block for an offence, if no other block lasts. Only growing blocks count offences.
    pub(super) fn of_offence(by: BlockDuration, last: Option<&Self>, now: u64) -> Self {
        let last = Self::after(last, by, now);
        Self {
            until: now.saturating_add(by.after(last.strikes)),
            strikes: last.strikes + u64::from(by.longest_us() > 0),
            ..last
        }
    }

    /// The strikes left of an earlier block. Only a rule whose blocks grow sets how long they are
    /// remembered.
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

    /// The microseconds from `now` on for which the block lasts.
    #[inline]
    pub(super) fn left(&self, now: u64) -> u64 {
        self.until.saturating_sub(now)
    }

    /// The number of blocks in a row that count for a rule with the block `by`: as long as the rule
    /// that set the last one remembers them, and no longer than `by` does.
    pub(super) fn strikes(&self, by: BlockDuration, now: u64) -> u64 {
        let remembered = if by.longest_us() > 0 {
            by.longest_us().min(self.remembered)
        } else {
            self.remembered
        };
        if now < self.until.saturating_add(remembered) {
            self.strikes
        } else {
            0
        }
    }

    /// `true` if block and strikes are over.
    pub(super) fn is_void(&self, now: u64) -> bool {
        let remembered = if self.strikes > 0 { self.remembered } else { 0 };
        now >= self.until.saturating_add(remembered)
    }
}
