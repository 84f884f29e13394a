//! [`Timeouts`]: the earliest timeout of a connection's callers, and the task that wakes those
//! whose timeout has come.
//!
//! One timer does for all callers: it is set to the earliest timeout, and stays when that caller is
//! answered, so that most calls leave it alone. The task needs nothing but the lock that callers
//! take for moments: it goes on when the server is silent, when the task of the connection is not
//! run, and when a caller does the work of that. If it ends, however it does, so does the
//! connection, which answers all callers.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use super::state::{ExchangeState, closed};
use crate::real_time;

#[derive(Default)]
pub(super) struct Timeouts {
    /// When the task looks for callers that are overdue. No caller that waits has an earlier
    /// timeout and has not been woken.
    earliest: Option<Instant>,
    /// The waker of the task, unless it was woken and has not run yet.
    task: Option<Waker>,
}

impl Timeouts {
    /// Notes the timeout of a new caller. Under the lock only the task is woken, whose waker is
    /// tokio's and runs nothing.
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
}

/// Wakes callers whose timeout has come, as long as the connection lasts.
pub(super) async fn wake_overdue(shared: Arc<ExchangeState>) {
    let closing = CloseOnDrop(shared);
    let mut overdue = Vec::new();
    loop {
        let at = poll_fn(|cx| closing.0.poll_earliest(cx)).await;
        let mut sleep = pin!(real_time::doze_until(at));
        poll_fn(|cx| match closing.0.poll_earliest(cx) {
            Poll::Ready(earliest) if earliest < at => Poll::Ready(()),
            _ => sleep.as_mut().poll(cx),
        })
        .await;
        let now = Instant::now();
        {
            let mut inner = closing.0.lock();
            inner.timeouts.earliest = inner.queue.take_overdue(now, &mut overdue);
        }
        // Not under the lock: they run foreign code.
        overdue.drain(..).for_each(Waker::wake);
    }
}

impl ExchangeState {
    /// The earliest timeout, once there is one.
    fn poll_earliest(&self, cx: &mut Context<'_>) -> Poll<Instant> {
        let mut inner = self.lock();
        if !inner.timeouts.task.as_ref().is_some_and(|task| task.will_wake(cx.waker())) {
            inner.timeouts.task = Some(cx.waker().clone());
        }
        inner.timeouts.earliest.map_or(Poll::Pending, Poll::Ready)
    }
}

/// Ends the connection when it is dropped.
struct CloseOnDrop(Arc<ExchangeState>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close(closed(), false);
    }
}
