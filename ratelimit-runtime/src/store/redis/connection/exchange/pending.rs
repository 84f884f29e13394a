//! [`PendingCharge`]: a charge that has entered the queue of a connection.

use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Instant;

use super::state::ExchangeState;
use crate::store::redis::batching::members::VerdictResult;
use crate::store::redis::wire::commands::CallError;

/// A charge that waits for its verdict. Dropping it cancels what has not been sent.
pub(crate) struct PendingCharge {
    pub(super) shared: Arc<ExchangeState>,
    /// Its number in the queue, until the verdict has been taken.
    member: Option<usize>,
    since: Instant,
}

impl PendingCharge {
    pub(super) fn new(shared: Arc<ExchangeState>, member: usize, since: Instant) -> Self {
        Self { shared, member: Some(member), since }
    }

    /// When it entered.
    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    pub(crate) fn poll(&mut self, waker: &Waker) -> Poll<VerdictResult> {
        let Some(member) = self.member else { return Poll::Ready(Err(CallError::NotSent)) };
        // The former waker is dropped after the lock: that runs foreign code.
        let polled = self.shared.lock().queue.poll(member, waker);
        match polled {
            Ok(result) => {
                self.member = None;
                Poll::Ready(result)
            }
            Err(_former_waker) => Poll::Pending,
        }
    }
}

impl Drop for PendingCharge {
    fn drop(&mut self) {
        if let Some(member) = self.member.take() {
            let waker = self.shared.lock().queue.cancel(member);
            drop(waker);
        }
    }
}
