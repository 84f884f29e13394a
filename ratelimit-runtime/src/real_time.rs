//! Timers by real time, also under tokio's paused clock: the server at the other end of a
//! connection does not know that a test has paused its clock.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

/// The longest sleep of a thread for a waiter. A runtime that shuts down waits that long.
const NAP: Duration = Duration::from_millis(10);

/// The error of a timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Elapsed;

/// Waits for `future`, but no longer than `time`.
pub(crate) fn timeout<F: Future>(
    time: Duration,
    future: F,
) -> impl Future<Output = Result<F::Output, Elapsed>> {
    let now = Instant::now();
    timeout_at(now, now + time, future)
}

/// Waits for `future`, but no longer than until `at`. A future that is ready needs no timer.
/// `since` is a recent time: it saves a look at the clock.
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

/// Waits until `at` by sleeping on tokio's clock, so that one paused by a test advances meanwhile.
#[cfg(feature = "redis")]
pub(crate) async fn reach(at: Instant) {
    while let Some(left) = at
        .checked_duration_since(Instant::now())
        .filter(|left| !left.is_zero())
    {
        tokio::time::sleep(left).await;
    }
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

/// Sleeps in a thread, for at most [`NAP`]. `false` if `at` is reached.
async fn nap(at: Instant) -> bool {
    let left = at.saturating_duration_since(Instant::now());
    // Timers are a millisecond coarse.
    left >= Duration::from_millis(1)
        && tokio::task::spawn_blocking(move || thread::sleep(left.min(NAP)))
            .await
            .is_ok()
}

/// `true` if tokio's clock stands still, or stood still; not visible in its first millisecond.
fn are_apart(real: Instant, of_tokio: tokio::time::Instant) -> bool {
    const BIT: Duration = Duration::from_millis(1);
    // A sum is cheaper than a difference, and this is done for every call.
    let tokio = of_tokio.into_std();
    tokio + BIT < real || real + BIT < tokio
}

/// The reason why a caller outside a tokio runtime cannot wait.
pub(crate) const NO_RUNTIME: &str =
    "it has to wait, which needs a tokio runtime, and none is running here";

/// `Ok` if a caller can wait here, else the reason why not.
pub(crate) fn can_wait() -> Result<(), &'static str> {
    Handle::try_current().map(drop).map_err(|_| NO_RUNTIME)
}
