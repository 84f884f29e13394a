//! [`LogEntry`]: an admission in a log; [`View`]: what of a log counts against one limit.

use std::collections::VecDeque;

/// What an entry is, besides units that count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Charge,
    /// A charge that is to be settled.
    Estimate,
    /// Reserved by `count`, and to be settled.
    Reserved,
}

/// Units of one admission, whose tickets follow each other. What it weighs is the difference
/// between its sums and those before it, so that what any two entries have between them is known
/// without a look at the others.
#[derive(Debug, Clone, Copy)]
pub(super) struct LogEntry {
    /// The ticket of its last unit: unique in the log and ascending.
    pub(super) last: u64,
    /// Of all units up to this one.
    pub(super) sums: Sums,
    pub(super) kind: Kind,
}

impl LogEntry {
    /// The ticket of the first unit that comes after these sums, which are those before the entry,
    /// and of units of it perhaps.
    #[inline]
    pub(super) fn first(&self, before: Sums) -> u64 {
        self.last + 1 - self.sums.since(before).cost
    }

    /// The sums of so many of its units.
    pub(super) fn part(&self, units: u64) -> Sums {
        Sums::of(self.kind, units)
    }
}

/// They wrap around, and only their differences count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) cost: u64,
    /// How much of that is reserved by `count`: it counts, and may be released.
    pub(super) reserved: u64,
}

impl Sums {
    #[inline]
    pub(super) fn of(kind: Kind, cost: u64) -> Self {
        Self { cost, reserved: if kind == Kind::Reserved { cost } else { 0 } }
    }

    #[inline]
    pub(super) fn and(self, other: Self) -> Self {
        Self { cost: self.cost.wrapping_add(other.cost), reserved: self.reserved.wrapping_add(other.reserved) }
    }

    #[inline]
    pub(super) fn since(self, earlier: Self) -> Self {
        Self { cost: self.cost.wrapping_sub(earlier.cost), reserved: self.reserved.wrapping_sub(earlier.reserved) }
    }

    /// What is not reserved.
    pub(super) fn own(self) -> u64 {
        self.cost.wrapping_sub(self.reserved)
    }
}

/// What of a log counts against one limit. A unit does while its ticket is above `now − window`.
#[derive(Debug, Clone, Copy)]
pub(super) struct View {
    pub(super) window: u64,
    /// How many of the oldest entries have left the window as a whole.
    pub(super) skip: usize,
    /// The sums of all units that have left it, of the next entry perhaps too.
    pub(super) before: Sums,
}

impl View {
    /// Whether more has left the window than the view knows, where `next` is the first entry that
    /// it does not skip.
    #[inline]
    pub(super) fn is_late(&self, next: &LogEntry, now: u64) -> bool {
        next.first(self.before) + self.window <= now
    }

    /// Goes on to `now`, where it [`is_late`](Self::is_late). Returns the last ticket that is in
    /// one window with what has left.
    #[inline]
    pub(super) fn advance(&mut self, entries: &VecDeque<LogEntry>, now: u64) -> u64 {
        let edge = now.saturating_sub(self.window);
        let is_past = |entry: &LogEntry| entry.last <= edge;
        let is_past_at = |at| entries.get(at).is_some_and(is_past);
        // Where calls come evenly, each finds one that has left.
        let skip = match (is_past_at(self.skip), is_past_at(self.skip + 1)) {
            (true, true) => entries.partition_point(is_past),
            (true, false) => self.skip + 1,
            _ => self.skip,
        };
        let mut lapsed = 0;
        if skip > self.skip
            && let Some(last) = entries.get(skip - 1)
        {
            (self.skip, self.before, lapsed) = (skip, last.sums, last.last);
        }
        if let Some(next) = entries.get(skip).filter(|next| self.is_late(next, now)) {
            let units = edge + 1 - next.first(self.before);
            (self.before, lapsed) = (self.before.and(next.part(units)), edge);
        }
        lapsed + self.window - 1
    }
}
