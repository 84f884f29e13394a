//! A store that is only asked as rules of unit cost and short limits ask it: on Redis, the log is a sorted set.

use ratelimit_runtime::Store;
use ratelimit_runtime::store::{Answer, Request, Verdict};

pub(crate) struct Units<S>(pub(crate) S);

impl<S: Store> Store for Units<S> {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        self.0.acquire(request.with_unit_log(true))
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        self.0.peek(request.with_unit_log(true))
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        self.0.reset(request.with_unit_log(true))
    }
}
