//! [`Far`]: a store that has to be waited for, as one on a server is.

use ratelimit_runtime::store::{Answer, Request, Verdict};
use ratelimit_runtime::{MemoryStore, Store};

/// A memory store that answers nothing at once.
pub(crate) struct Far(pub(crate) MemoryStore);

impl Store for Far {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        Answer::later(async move { self.0.acquire(request).await })
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        Answer::later(async move { self.0.peek(request).await })
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        Answer::later(async move { self.0.reset(request).await })
    }
}
