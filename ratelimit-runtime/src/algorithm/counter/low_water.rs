//! [`LowWater`]: the lowest level of a bucket since some moment, for refunds.
//!
//! Had a call not come, the bucket would now be lower by its cost, or by the lowest level since if
//! that is less: what had run out anyway cannot be given back. The lowest level since *every*
//! charge would take a log; two moments, at most and at least a window ago, give a bound that is
//! never too high.

/// A level: whole tokens or microseconds, and a rest in parts of one.
pub(crate) type Level = (u64, u64);

/// Above all levels: no charge has come since.
const UNTOUCHED: Level = (1 << 52, 0);

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LowWater {
    older: Mark,
    newer: Mark,
}

#[derive(Debug, Clone, Copy, Default)]
struct Mark {
    since: u64,
    /// The lowest level that a charge has found since then.
    low: Level,
}

impl LowWater {
    /// Notes a charge at `now` that finds this level.
    pub(crate) fn charge(&mut self, level: Level, now: u64, window: u64) {
        // The older mark is never above the newer: it has seen more.
        if level < self.newer.low {
            self.newer.low = level;
            self.older.low = self.older.low.min(level);
        }
        if now >= self.newer.since + window {
            self.older = self.newer;
            self.newer = Mark { since: now, low: UNTOUCHED };
        }
    }

    /// Notes a charge at `now` before which nothing can be given back.
    pub(crate) fn start(&mut self, now: u64) {
        let mark = Mark { since: now, low: UNTOUCHED };
        *self = Self { older: mark, newer: mark };
    }

    /// The least that the level can have been since `ticket`, up to the newest charge.
    pub(crate) fn since(&self, ticket: u64, newest: u64) -> Level {
        if ticket >= newest {
            UNTOUCHED
        } else if ticket >= self.newer.since {
            self.newer.low
        } else if ticket >= self.older.since {
            self.older.low
        } else {
            (0, 0)
        }
    }

    /// Notes a refund: the level would have been lower by this much ever since. No charge has found
    /// that of the newest.
    pub(crate) fn refund(&mut self, amount: Level, parts: u64, ticket: u64, newest: u64) {
        if ticket >= newest {
            return;
        }
        for mark in [&mut self.older, &mut self.newer] {
            if mark.low < UNTOUCHED {
                mark.low = less(mark.low, amount, parts);
            }
        }
    }
}

/// The level without `amount`, at least 0; a whole has so many `parts`.
pub(crate) fn less(level: Level, amount: Level, parts: u64) -> Level {
    if amount >= level {
        return (0, 0);
    }
    let borrow = u64::from(amount.1 > level.1);
    (level.0 - amount.0 - borrow, level.1 + borrow * parts - amount.1)
}
