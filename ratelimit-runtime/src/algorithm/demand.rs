//! [`Demand`]: the part of a call that an algorithm has to know.

use crate::rule::{Algorithm, Limit};

/// What an admission reserves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reserves {
    /// Nothing: it is charged at once.
    Nothing,
    /// The cost, by `count`: it counts apart from charges.
    Cost,
    /// An estimate of the cost: it is a charge that can be settled.
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
    /// The longest that anything written for this call may live, in microseconds.
    #[inline]
    pub(crate) fn horizon_us(&self) -> u64 {
        self.limits
            .iter()
            .map(|limit| self.algorithm.horizon_us(limit))
            .max()
            .unwrap_or(0)
    }

    /// How much of a limit may be used where a call did cost more than it was admitted for: twice
    /// the capacity, which is below 2⁵³.
    pub(crate) fn most_used(&self, limit: &Limit) -> u64 {
        2 * self.algorithm.capacity(limit)
    }
}
