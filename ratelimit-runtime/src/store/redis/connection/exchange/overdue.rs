//! The task of a connection that wakes callers whose timeout has come.
//!
//! One timer does for all of them: it is set to the earliest timeout, and stays when that caller is
//! answered, so that most calls leave it alone. The task needs nothing but the lock that callers
//! take for moments: it goes on when the server is silent, when the task that reads is not run, and
//! when a caller does the work of that. If it ends, however it does, so does the connection, which
//! answers all callers.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Instant;

use super::state::{ExchangeState, closed};
use crate::real_time;

/// Wakes callers whose timeout has come, as long as the connection lasts.
pub(super) async fn wake_overdue(shared: Arc<ExchangeState>) {
    let closing = CloseOnDrop(shared);
    let shared = &closing.0;
    let mut overdue = Vec::new();
    loop {
        let at = poll_fn(|cx| shared.lock().timeouts.poll_earliest(cx)).await;
        let mut sleep = pin!(real_time::doze_until(at));
        poll_fn(|cx| match shared.lock().timeouts.poll_earliest(cx) {
            Poll::Ready(earliest) if earliest < at => Poll::Ready(()),
            _ => sleep.as_mut().poll(cx),
        })
        .await;
        let now = Instant::now();
        {
            // No caller is missed: one that enters behind this notes a timeout of its own.
            let mut inner = shared.lock();
            inner.timeouts.earliest = inner.queue.take_overdue(now, &mut overdue);
        }
        // Not under the lock: they run foreign code.
        overdue.drain(..).for_each(Waker::wake);
    }
}

/// Ends the connection when it is dropped.
struct CloseOnDrop(Arc<ExchangeState>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close(closed(), false);
    }
}
