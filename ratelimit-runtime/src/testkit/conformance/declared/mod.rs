//! Cases for what a store declares: a feature each.

pub(super) mod actual_costs;
pub(super) mod blocks;
pub(super) mod growing_blocks;
pub(super) mod keys;
pub(super) mod limits;
pub(super) mod refunds;
pub(super) mod reservations;
pub(super) mod together;
