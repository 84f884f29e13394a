//! Cases for what a store declares: a feature each.

pub(super) mod actual_costs;
pub(super) mod blocks;
#[cfg(feature = "calendar")]
pub(super) mod calendar;
pub(super) mod growing_blocks;
pub(super) mod in_flight;
pub(super) mod keys;
pub(super) mod limits;
pub(super) mod refunds;
pub(super) mod reservations;
pub(super) mod together;
