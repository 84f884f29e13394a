//! [`Timeouts`]: when the first timeout of a connection's callers comes.

use std::task::{Context, Poll, Waker};
use std::time::Instant;

#[derive(Debug, Default)]
pub(super) struct Timeouts {
    /// When to look for callers that are overdue. No caller that waits has an earlier timeout, but
    /// those that were woken for theirs.
    pub(super) earliest: Option<Instant>,
    /// The waker of the task that looks, unless that was woken and has not run yet.
    task: Option<Waker>,
}

impl Timeouts {
    /// Notes the timeout of a new caller, and wakes the task if it has to look earlier.
    pub(super) fn note(&mut self, timeout_at: Option<Instant>) {
        let Some(timeout_at) = timeout_at else { return };
        if self.earliest.is_some_and(|earliest| earliest <= timeout_at) {
            return;
        }
        self.earliest = Some(timeout_at);
        if let Some(task) = self.task.take() {
            task.wake();
        }
    }

    /// When to look, once there is a caller. The task is woken when that becomes earlier.
    pub(super) fn poll_earliest(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        if !self.task.as_ref().is_some_and(|task| task.will_wake(cx.waker())) {
            self.task = Some(cx.waker().clone());
        }
        self.earliest.map_or(Poll::Pending, Poll::Ready)
    }
}
