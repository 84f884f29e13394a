//! Timers that go by real time, also under tokio's paused clock: a server on the other end of a
//! connection does not know that the clock of a test stands still.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

/// How long one thread sleeps for a waiter. A runtime that shuts down waits that long.
const NAP: Duration = Duration::from_millis(10);

/// Time was up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Elapsed;

/// Waits for `future` for so long, and no longer.
pub(crate) fn timeout<F: Future>(
    time: Duration,
    future: F,
) -> impl Future<Output = Result<F::Output, Elapsed>> {
    let now = Instant::now();
    timeout_at(now, now + time, future)
}

/// Waits for `future` until `at`, and no longer. A future that is ready needs no timer. A `since`
/// of a moment ago saves a look at the clock.
pub(crate) async fn timeout_at<F: Future>(
    since: Instant,
    at: Instant,
    future: F,
) -> Result<F::Output, Elapsed> {
    let mut future = pin!(future);
    let mut time = pin!(None);
    poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        if time.is_none() {
            time.set(Some(sleep_until(since, at)));
        }
        match time.as_mut().as_pin_mut() {
            Some(time) => time.poll(cx).map(|()| Err(Elapsed)),
            None => Poll::Pending,
        }
    })
    .await
}

/// Waits for `duration`.
pub(crate) async fn sleep(duration: Duration) {
    let now = Instant::now();
    sleep_until(now, now + duration).await;
}

async fn sleep_until(since: Instant, at: Instant) {
    let of_tokio = tokio::time::Instant::now();
    // Most often it has just begun, which saves another look at the clock.
    if !are_apart(since, of_tokio) || !are_apart(Instant::now(), of_tokio) {
        tokio::time::sleep_until(at.into()).await;
    }
    // On a paused clock, tokio's timers fire as soon as nothing else is to be done. Then threads
    // wait. While one does, that clock is not advanced, so no code may rely on it.
    while nap(at).await {}
}

/// Sleeps in a thread for [`NAP`] at most, unless it is `at` already.
async fn nap(at: Instant) -> bool {
    let left = at.saturating_duration_since(Instant::now());
    // Timers are a millisecond coarse.
    left >= Duration::from_millis(1)
        && tokio::task::spawn_blocking(move || thread::sleep(left.min(NAP)))
            .await
            .is_ok()
}

/// Whether the clock of tokio stands still, or has. Its first millisecond does not show it.
fn are_apart(real: Instant, of_tokio: tokio::time::Instant) -> bool {
    const BIT: Duration = Duration::from_millis(1);
    // A sum is cheaper than a difference, and this is done for every call.
    let tokio = of_tokio.into_std();
    tokio + BIT < real || real + BIT < tokio
}

/// The reason why a caller outside of a tokio runtime cannot wait.
pub(crate) const NO_RUNTIME: &str =
    "it has to wait, which needs a tokio runtime, and none is running here";

/// Whether a caller can wait here, or the reason why not.
pub(crate) fn can_wait() -> Result<(), &'static str> {
    Handle::try_current().map(drop).map_err(|_| NO_RUNTIME)
}
