//! [`Page`]: some of the keys that a store holds for a rule, and where the next ones begin.

use std::fmt;

use super::StoreError;

/// A part of the keys that a store holds for a rule, as [`Store::keys`](super::Store::keys) returns
/// it.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Page {
    /// The keys, as [`Request::key`](super::Request::key) has them. There may be none, and more on
    /// the next page.
    pub keys: Vec<Vec<u8>>,
    /// The start of the next page, in the store's own encoding; `None` if this is the last one.
    pub next: Option<Vec<u8>>,
}

impl Page {
    /// A page of these keys; `next` is where the next one begins, `None` for the last page.
    #[must_use]
    pub fn new(keys: Vec<Vec<u8>>, next: Option<Vec<u8>>) -> Self {
        Self { keys, next }
    }
}

impl fmt::Debug for Page {
    /// Without the keys, which may hold personal data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Page")
            .field("keys", &self.keys.len())
            .field("is_last", &self.next.is_none())
            .finish()
    }
}

/// The error for a cursor that no list of the store has given.
pub(in crate::store) fn foreign() -> StoreError {
    StoreError::misconfigured(
        "this cursor is not one that this store gave: begin with the first page",
    )
}
