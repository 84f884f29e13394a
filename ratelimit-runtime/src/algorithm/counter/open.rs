//! [`Open`] and [`Estimates`]: the cost of open reservations. [`Past`]: a reservation when it ends.

use crate::algorithm::state::Settlement;

/// The cost that `count` reserves of a limit: in the current window, or period of a bucket, and in
/// the one before. A later window or period forgets it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Open {
    /// The start of the current window or period.
    pub(crate) since: u64,
    pub(crate) current: u64,
    pub(crate) previous: u64,
    /// Boxed, because few keys have one.
    pub(crate) estimates: Option<Box<Estimates>>,
}

/// Small, because a key with several limits has one for each.
const _: () = assert!(size_of::<Open>() == 32);

/// The open estimates of a bucket, which its level includes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Estimates {
    /// The start of the current period.
    pub(crate) since: u64,
    pub(crate) current: u64,
    pub(crate) previous: u64,
    /// The highest possible level without the estimates, in tokens × microseconds.
    pub(crate) settled: u128,
}

impl Open {
    pub(crate) fn sum(&self) -> u64 {
        self.current + self.previous
    }

    pub(super) fn is_none(&self) -> bool {
        self.sum() == 0 && self.estimates.is_none()
    }

    /// The reserved cost in the next window or period, `length` microseconds later.
    pub(crate) fn rolled(self, length: u64) -> Self {
        Self {
            since: self.since.saturating_add(length),
            current: 0,
            previous: self.current,
            ..self
        }
    }

    /// Resets the cost reserved by `count` and its start if nothing is reserved.
    pub(super) fn or_none(self) -> Self {
        if self.sum() == 0 {
            Self {
                estimates: self.estimates,
                ..Self::default()
            }
        } else {
            self
        }
    }
}

impl Estimates {
    pub(crate) fn sum(&self) -> u64 {
        self.current + self.previous
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
    /// Takes a reservation out of `open`. `false` if `open` is less than its cost.
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
