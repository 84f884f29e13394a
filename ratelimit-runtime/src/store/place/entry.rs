//! [`Entry`]: a store's answer to a call that asks for a place.

use crate::store::Verdict;

/// What a store answers to [`enter`](crate::store::BuiltInStore::enter).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// Whether all places are taken, by other calls than this one.
    pub is_full: bool,
    /// How many calls of the key are in flight, this one included if it has entered.
    pub in_flight: u64,
    /// One verdict for each request, in order. Where all places are taken, what
    /// [`peek`](crate::Store::peek) would say, or none at all.
    pub verdicts: Vec<Verdict>,
}

impl Entry {
    /// The answer where a place is free: it is taken, if all of these verdicts say `allowed`.
    #[must_use]
    pub fn free(in_flight: u64, verdicts: Vec<Verdict>) -> Self {
        Self { is_full: false, in_flight, verdicts }
    }

    /// The answer where no place is free; the verdicts charge nothing.
    #[must_use]
    pub fn full(in_flight: u64, verdicts: Vec<Verdict>) -> Self {
        Self { is_full: true, in_flight, verdicts }
    }

    /// Whether the place is taken, and all requests are charged.
    #[must_use]
    pub fn is_entered(&self) -> bool {
        !self.is_full && self.verdicts.iter().all(|verdict| verdict.allowed)
    }
}
