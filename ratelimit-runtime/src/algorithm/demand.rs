//! [`Demand`]: the part of a call that an algorithm needs. It has no key and no rule, so that
//! algorithms stay functions of state, time and cost.

use crate::rule::{Algorithm, Limit};

/// The way in which an admission is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reserves {
    /// The cost is charged at once.
    Nothing,
    /// The cost is reserved by `count`, apart from charges.
    Cost,
    /// An estimate of the cost is charged, and settled later.
    Estimate,
}

/// The limits that apply to a call, and its cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Demand<'a> {
    pub(crate) algorithm: Algorithm,
    pub(crate) limits: &'a [Limit],
    pub(crate) cost: u64,
    pub(crate) reserves: Reserves,
}

impl Demand<'_> {
    /// The longest life of anything that is written for this call, in microseconds.
    #[inline]
    pub(crate) fn horizon_us(&self) -> u64 {
        self.limits
            .iter()
            .map(|limit| self.algorithm.horizon_us(limit))
            .max()
            .unwrap_or(0)
    }

    /// The most of a limit that can be used after calls that cost more than they were admitted for:
    /// twice the capacity, which is below 2⁵³.
    pub(crate) fn most_used(&self, limit: &Limit) -> u64 {
        2 * self.algorithm.capacity(limit)
    }
}
