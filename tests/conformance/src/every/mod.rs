//! Cases for every store.

pub(crate) mod agreement;
pub(crate) mod answers;
pub(crate) mod clocks;
pub(crate) mod costs;
pub(crate) mod counting;
pub(crate) mod waits;
