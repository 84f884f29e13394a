//! [`Question`]: what an algorithm has to know of a call.

use crate::rule::{Algorithm, Limit};

/// The limits that apply to a call, and what it weighs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Question<'a> {
    pub(crate) algorithm: Algorithm,
    pub(crate) limits: &'a [Limit],
    pub(crate) cost: u64,
}

impl Question<'_> {
    /// The longest that anything written for this question may live, in microseconds.
    #[inline]
    pub(crate) fn horizon_us(&self) -> u64 {
        self.limits.iter().map(|limit| self.algorithm.horizon_us(limit)).max().unwrap_or(0)
    }
}
