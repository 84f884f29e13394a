//! [`Open`]: the cost of open reservations. [`Past`]: a reservation when it ends.

use crate::algorithm::state::Settlement;

/// The cost that `count` reserves of a limit: in the current window, or period of a bucket, and in
/// the one before. A later window or period forgets it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Open {
    /// When the current window or period began.
    pub(crate) since: u64,
    pub(crate) current: u64,
    pub(crate) previous: u64,
    /// Of a bucket, the open estimates of the period and of the one before, which its level
    /// includes.
    pub(crate) estimated: [u64; 2],
    /// The most that the level of a bucket would be without its open estimates, in tokens ×
    /// microseconds; 0 where there are none.
    pub(crate) settled: u128,
}

impl Open {
    /// The cost reserved by `count`.
    pub(crate) fn sum(&self) -> u64 {
        self.current + self.previous
    }

    /// The sum of the open estimates.
    pub(crate) fn estimates(&self) -> u64 {
        self.estimated.iter().sum()
    }

    pub(crate) fn is_none(&self) -> bool {
        self.sum() + self.estimates() == 0
    }

    /// The reserved cost in the next window or period, `length` microseconds later.
    pub(crate) fn rolled(self, length: u64) -> Self {
        Self {
            since: self.since.saturating_add(length),
            current: 0,
            previous: self.current,
            estimated: [0, self.estimated[0]],
            ..self
        }
    }

    /// The default if nothing is open, else `self`.
    pub(super) fn or_none(self) -> Self {
        if self.is_none() {
            Self::default()
        } else {
            self
        }
    }
}

/// A reservation that ends, or a charge that is refunded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Past {
    pub(crate) settlement: Settlement,
    /// The cost that was reserved or charged.
    pub(crate) cost: u64,
    /// The time of the newest write so far.
    pub(crate) newest: u64,
    pub(crate) now: u64,
}

impl Past {
    /// Takes a reservation out of `open`. `false` if that is less than its cost.
    pub(crate) fn take(&self, open: &mut u64) -> bool {
        let left = open.checked_sub(self.cost);
        *open = left.unwrap_or(*open);
        left.is_some()
    }

    /// The part of the actual cost beyond the reserved cost.
    pub(crate) fn excess(&self) -> u64 {
        self.settlement.actual.saturating_sub(self.cost)
    }

    /// Settles within a window that is not over; `counted` includes `open`. Returns as
    /// [`Counter::settle`](super::Counter::settle) does.
    pub(crate) fn settle(&self, counted: &mut u64, open: &mut u64) -> (bool, u64) {
        if !self.settlement.is_estimate && !self.take(open) {
            return (false, 0);
        }
        debug_assert!(*counted >= *open, "the open cost is counted");
        let back = self.cost.saturating_sub(self.settlement.actual);
        *counted -= back.min(counted.saturating_sub(*open));
        (true, self.excess())
    }
}
