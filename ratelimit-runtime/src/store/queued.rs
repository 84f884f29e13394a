//! [`QueuedRequest`]: a request that waits in a queue of its store, and takes no memory of its own
//! for that.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use super::lookup::Lookup;
use super::redis::PendingCharge;
use super::request::Request;
use crate::error::StoreError;
use crate::real_time::Elapsed;

/// A future in a box.
pub(in crate::store) type BoxedAnswer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// The result, or the future to wait for instead where that takes more than the queue.
pub(in crate::store) type QueueAnswer<'a, T> = Result<Result<T, StoreError>, BoxedAnswer<'a, T>>;

/// A request, and what its store knows of it so far.
pub(in crate::store) struct QueuedRequest<'a, T> {
    queue: &'a dyn RequestQueue<T>,
    pub(in crate::store) request: Request<'a>,
    pub(in crate::store) lookup: Lookup,
    /// Its place in the queue. Dropping it leaves the queue.
    pub(in crate::store) charge: Option<PendingCharge>,
}

/// A store that queues requests, and wakes their callers.
pub(in crate::store) trait RequestQueue<T>: Sync {
    /// Goes on with a request. As long as that is pending, the caller is woken once there is a
    /// result, and once the timeout of the request has come.
    fn poll<'a>(&'a self, queued: &mut QueuedRequest<'a, T>, cx: &mut Context<'_>) -> Poll<QueueAnswer<'a, T>>;
}

impl<'a, T> QueuedRequest<'a, T> {
    pub(super) fn new(queue: &'a dyn RequestQueue<T>, request: Request<'a>, lookup: Lookup) -> Self {
        Self { queue, request, lookup, charge: None }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<QueueAnswer<'a, T>> {
        self.queue.poll(self, cx)
    }

    /// The same until a moment that is not before the timeout of the request.
    pub(super) fn poll_until(
        &mut self,
        until: Instant,
        cx: &mut Context<'_>,
    ) -> Poll<Result<QueueAnswer<'a, T>, Elapsed>> {
        let since = self.charge.as_ref().map(PendingCharge::since);
        match self.poll(cx) {
            Poll::Ready(answer) => Poll::Ready(Ok(answer)),
            // At the first turn the queue has just been entered; it wakes this caller in any case.
            Poll::Pending => match since.filter(|_| Instant::now() >= until) {
                Some(since) => Poll::Ready(Err(Elapsed { since })),
                None => Poll::Pending,
            },
        }
    }
}
