//! [`Demand`]: what an algorithm has to know of a call.

use crate::rule::{Algorithm, Limit};

/// The limits that apply to a call, and what it costs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Demand<'a> {
    pub(crate) algorithm: Algorithm,
    pub(crate) limits: &'a [Limit],
    pub(crate) cost: u64,
}

impl Demand<'_> {
    /// The longest that anything written for this call may live, in microseconds.
    #[inline]
    pub(crate) fn horizon_us(&self) -> u64 {
        self.limits.iter().map(|limit| self.algorithm.horizon_us(limit)).max().unwrap_or(0)
    }

    /// How long a reservation counts at least, in microseconds: as long as a charge, and never less
    /// than a window, because it does not drain.
    pub(crate) fn span(&self) -> u64 {
        self.limits.iter().map(Limit::window_us).fold(self.horizon_us(), u64::max)
    }
}
