//! [`Keys`]: the keys of a rule that a store holds, in pages.

use std::fmt;

use crate::engine::{self, Part};
use crate::error::RateLimitError;
use crate::key::Key;
use crate::store::{Feature, Page};

/// The keys of a rule that the store holds; made by
/// [`RateLimiter::keys`](crate::RateLimiter::keys).
///
/// A key that is stored from the first page to the last is given. A key that is added or removed
/// meanwhile may be missing, any key may be given more than once, and a key of which nothing counts
/// any more may still be given. Where a Redis server is started anew or replaced meanwhile, or
/// slots of a cluster are moved, keys may be missing: list again.
#[derive(Clone)]
pub struct Keys {
    call: Part,
    /// The cursor of the next page; `None` at the start, and at the end.
    cursor: Option<Vec<u8>>,
    is_over: bool,
}

impl Keys {
    pub(super) fn new(call: Part) -> Self {
        Self {
            call,
            cursor: None,
            is_over: false,
        }
    }

    /// The next page; `None` after the last one. A page takes at most the timeout of a check. On
    /// Redis it is one `SCAN` of about 250 keys, of this rule or not, so it may be empty.
    ///
    /// Under a [secret](crate::RateLimiterBuilder::hash_keys) these are hashed keys. `peek`,
    /// `reset`, `block` and `unblock` take them as they are, on any limiter of this prefix and
    /// store; `in_flight` and `enter` take only the key before hashing. A policy's
    /// [override](crate::Override) is found by the key before hashing: `peek` of a hashed key
    /// decides without it.
    ///
    /// # Errors
    ///
    /// `Unavailable`: ask again, and the list goes on, perhaps with keys that were given already.
    /// `Misconfigured`, also where the store does not list its keys.
    pub async fn next_page(&mut self) -> Result<Option<Vec<Key>>, RateLimitError> {
        engine::cooperating(self.page()).await
    }

    async fn page(&mut self) -> Result<Option<Vec<Key>>, RateLimitError> {
        if self.is_over {
            return Ok(None);
        }
        let from = self.cursor.clone();
        self.call.bound.require(Feature::Keys)?;
        let beginning = self.call.key_request()?.key().len();
        let Page { keys, next } = self
            .call
            .change(|store, request| store.keys(request, from))
            .await?;
        (self.is_over, self.cursor) = (next.is_none(), next);
        let key = |stored: Vec<u8>| {
            Key::from_rendered(std::str::from_utf8(stored.get(beginning..)?).ok()?).ok()
        };
        Ok(Some(keys.into_iter().filter_map(key).collect()))
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys(..)")
    }
}
