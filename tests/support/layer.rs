//! [`Layer`]: the least that a layer around a store implements.

use ratelimit_runtime::Store;
use ratelimit_runtime::store::{Answer, Request, Verdict};

/// A layer as the documentation of `Store` has it. Each decision goes through it, one key at a
/// time.
pub(crate) struct Layer<S>(pub(crate) S);

impl<S: Store> Store for Layer<S> {
    fn inner(&self) -> Option<&dyn Store> {
        Some(&self.0)
    }

    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        self.0.acquire(request)
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        self.0.peek(request)
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        self.0.reset(request)
    }
}
