//! Timers that are made when they are needed: a future that is ready needs none, and may be awaited
//! outside a runtime.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

/// The error of a timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Elapsed;

/// Waits for `future`, but no longer than `time`.
pub(crate) fn timeout<F: Future>(
    time: Duration,
    future: F,
) -> impl Future<Output = Result<F::Output, Elapsed>> {
    timeout_at(Instant::now() + time, future)
}

/// Waits for `future`, but no longer than until `at`, by tokio's clock.
pub(crate) async fn timeout_at<F: Future>(at: Instant, future: F) -> Result<F::Output, Elapsed> {
    let mut future = pin!(future);
    let mut time = pin!(None);
    poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        if time.is_none() {
            time.set(Some(tokio::time::sleep_until(at)));
        }
        match time.as_mut().as_pin_mut() {
            Some(time) => time.poll(cx).map(|()| Err(Elapsed)),
            None => Poll::Pending,
        }
    })
    .await
}

/// The reason why a caller outside a tokio runtime cannot wait.
pub(crate) const NO_RUNTIME: &str =
    "it has to wait, which needs a tokio runtime, and none is running here";

/// `Ok` if a caller can wait here, else the reason why not.
pub(crate) fn can_wait() -> Result<(), &'static str> {
    Handle::try_current().map(drop).map_err(|_| NO_RUNTIME)
}
