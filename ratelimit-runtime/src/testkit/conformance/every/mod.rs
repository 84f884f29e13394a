//! Cases for every store.

pub(super) mod agreement;
pub(super) mod answers;
pub(super) mod clocks;
pub(super) mod costs;
pub(super) mod counting;
pub(super) mod waits;
