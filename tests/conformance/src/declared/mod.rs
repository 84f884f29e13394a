//! Cases for what a store declares: a feature each.

pub(crate) mod actual_costs;
pub(crate) mod blocks;
pub(crate) mod calendar;
pub(crate) mod growing_blocks;
pub(crate) mod in_flight;
pub(crate) mod keys;
pub(crate) mod limits;
pub(crate) mod refunds;
pub(crate) mod reservations;
pub(crate) mod stacks;
