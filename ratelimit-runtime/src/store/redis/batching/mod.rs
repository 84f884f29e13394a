//! Which decisions share a call, and how many may be on their way. Nothing here is sent or received.

pub(super) mod batch;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzzing;
pub(super) mod item;
pub(super) mod members;
pub(super) mod records;
pub(super) mod room;
mod slab;
