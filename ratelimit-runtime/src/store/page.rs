//! [`Page`]: some of the keys that a store holds for a rule, and where to look for more.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// A part of the keys that a store holds for a rule: what [`Store::keys`](super::Store::keys) gives.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Page {
    /// The keys, as [`Request::key`](super::Request::key) has them. There may be none, and more on the next page.
    pub keys: Vec<Vec<u8>>,
    /// Where the next page begins; `None` if this is the last one.
    pub next: Option<Cursor>,
}

impl Page {
    /// A page, and where the next one begins.
    #[must_use]
    pub fn new(keys: Vec<Vec<u8>>, next: Option<Cursor>) -> Self {
        Self { keys, next }
    }
}

impl fmt::Debug for Page {
    /// Without the keys, which may hold personal data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Page").field("keys", &self.keys.len()).field("next", &self.next).finish()
    }
}

/// Where a [`Page`] begins. What it holds is known to the store that made it, and to nobody else.
#[derive(Clone)]
pub struct Cursor(Arc<dyn Any + Send + Sync>);

impl Cursor {
    /// A cursor that holds what the store needs to go on.
    pub fn new(at: impl Any + Send + Sync) -> Self {
        Self(Arc::new(at))
    }

    /// What it holds, if it is of this type.
    #[must_use]
    pub fn at<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl fmt::Debug for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cursor(..)")
    }
}
