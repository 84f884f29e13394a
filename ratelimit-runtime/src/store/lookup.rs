//! [`Lookup`]: what a store hands from the look at a request to the wait for its answer.

use super::layer::Miss;

/// What [`Store::acquire_now`](super::Store::acquire_now) has found out about a request that it
/// could not decide. [`Store::acquire_after`](super::Store::acquire_after) takes it back, so that
/// nothing is looked up twice.
///
/// It is opaque. A store with nothing to remember returns [`Lookup::default`], and a layer the one
/// of the store it is around. Dropping it gives the request up.
#[derive(Debug, Default)]
#[must_use = "`acquire_after` takes it"]
pub struct Lookup {
    miss: Option<Miss>,
}

impl Lookup {
    /// The lookup of a [`DenyCache`](super::DenyCache) that does not know the answer.
    pub(super) fn of(miss: Miss) -> Self {
        Self { miss: Some(miss) }
    }

    pub(super) fn miss(&self) -> Option<&Miss> {
        self.miss.as_ref()
    }
}
