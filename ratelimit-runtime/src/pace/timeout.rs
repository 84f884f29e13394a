//! Timers that are made when they are needed: a future that is ready needs none, and may be awaited
//! outside a runtime.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::panic::catch_unwind;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::{Handle, Id};
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

/// Waits for `future`, but no longer than until `at`, by tokio's clock; and not at all where a
/// caller [cannot wait](can_wait).
pub(crate) async fn timeout_at<F: Future>(at: Instant, future: F) -> Result<F::Output, Elapsed> {
    let mut future = pin!(future);
    let mut time = pin!(None);
    let mut driven_by = None;
    poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        // The runtime that polled this before need not be driven now, nor be there any more.
        let is_another = |runtime: Handle| driven_by != Some(runtime.id());
        if time.is_none() || Handle::try_current().is_ok_and(is_another) {
            let Ok(runtime) = runtime() else {
                return Poll::Ready(Err(Elapsed));
            };
            time.set(Some(tokio::time::sleep_until(at)));
            driven_by = Some(runtime.id());
        }
        match time.as_mut().as_pin_mut() {
            Some(time) => time.poll(cx).map(|()| Err(Elapsed)),
            None => Poll::Pending,
        }
    })
    .await
}

/// The runtime of a caller that can wait here, else the reason why it cannot.
pub(crate) fn runtime() -> Result<Handle, &'static str> {
    let runtime = Handle::try_current()
        .map_err(|_| "it has to wait, which needs a tokio runtime, and none is running here")?;
    if has_timers(runtime.id()) {
        Ok(runtime)
    } else {
        Err(
            "it has to wait, and the tokio runtime has no timers: build it with `enable_time`, or \
             with `enable_all` for Redis",
        )
    }
}

/// `Ok` if a caller can wait here, else the reason why not.
pub(crate) fn can_wait() -> Result<(), &'static str> {
    runtime().map(drop)
}

/// `true` if the current runtime has timers. tokio says so only by a panic, which the panic hook
/// reports: it is asked once for each runtime that a thread is in.
fn has_timers(current: Id) -> bool {
    thread_local! {
        static ASKED: Cell<Option<(Id, bool)>> = const { Cell::new(None) };
    }
    if let Some((runtime, has_timers)) = ASKED.get()
        && runtime == current
    {
        return has_timers;
    }
    let has_timers = catch_unwind(|| drop(tokio::time::sleep(Duration::ZERO))).is_ok();
    ASKED.set(Some((current, has_timers)));
    has_timers
}
