//! [`Keys`]: the keys of a rule that a store holds, in pages.

use std::fmt;

use crate::engine::OwnedCall;
use crate::error::RateLimitError;
use crate::key::Key;
use crate::store::{Feature, Page};

/// The keys of a rule that the store holds; made by
/// [`RateLimiter::keys`](crate::RateLimiter::keys).
///
/// Those that are there from the first page to the last are all given. One that comes or goes
/// meanwhile may be missing, any may be given more than once, and one of which nothing counts any
/// more may still be there. Where a Redis server is started anew or replaced meanwhile, or slots of a
/// cluster are moved, keys may be missing: list again.
#[derive(Clone)]
pub struct Keys {
    call: OwnedCall,
    from: From,
}

/// Where the next page is.
#[derive(Clone)]
enum From {
    Start,
    Cursor(Vec<u8>),
    End,
}

impl Keys {
    pub(super) fn new(call: OwnedCall) -> Self {
        Self { call, from: From::Start }
    }

    /// Goes on where another list of the same keys has come to, perhaps of another process: see
    /// [`cursor`](Self::cursor).
    #[must_use]
    pub fn resume(mut self, cursor: impl Into<Vec<u8>>) -> Self {
        self.from = From::Cursor(cursor.into());
        self
    }

    /// Where the next page begins, as bytes that can be stored; `None` before the first page and
    /// after the last one. On Redis any limiter with the same policy can [`resume`](Self::resume)
    /// there; a list of a memory store ends with that store.
    #[must_use]
    pub fn cursor(&self) -> Option<&[u8]> {
        match &self.from {
            From::Cursor(cursor) => Some(cursor),
            From::Start | From::End => None,
        }
    }

    /// The next page; `None` after the last one. On Redis a page is one `SCAN` of about 250 of the
    /// keys that a server holds, whatever they belong to, so many a page is empty. It takes at most
    /// the timeout of a check.
    ///
    /// Whichever limiter of the same prefix and store is given one of these keys, with a
    /// [secret](crate::RateLimiterBuilder::hash_keys) or without, reaches its bucket.
    ///
    /// # Errors
    ///
    /// `Unavailable`: ask again, and the list goes on, perhaps with keys that were given already.
    /// `Misconfigured`, also where the store does not list its keys, or cannot read the cursor that
    /// the list was resumed at.
    pub async fn next_page(&mut self) -> Result<Option<Vec<Key>>, RateLimitError> {
        let from = match &self.from {
            From::Start => None,
            From::Cursor(cursor) => Some(cursor.clone()),
            From::End => return Ok(None),
        };
        self.call.require(Feature::Keys)?;
        let beginning = self.call.key_request()?.key().len();
        let Page { keys, next } = self.call.change(|store, request| store.keys(request, from)).await?;
        self.from = next.map_or(From::End, From::Cursor);
        let key = |stored: Vec<u8>| Key::from_rendered(std::str::from_utf8(stored.get(beginning..)?).ok()?).ok();
        Ok(Some(keys.into_iter().filter_map(key).collect()))
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys(..)")
    }
}
