//! Timers that go by real time, also under tokio's paused clock: a server on the other end of a
//! connection does not know that the clock of a test stands still.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, Id};

/// How long one thread sleeps for a waiter. A runtime that ends waits for it.
const NAP: Duration = Duration::from_millis(10);

/// Time was up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Elapsed;

/// Waits for `future` until `at`, and no longer. What is ready at once needs no timer.
pub(crate) async fn timeout_at<F: Future>(at: Instant, future: F) -> Result<F::Output, Elapsed> {
    let mut future = pin!(future);
    let mut time = pin!(None);
    poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        if time.is_none() {
            time.set(Some(sleep_until(at, Instant::now())));
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
    sleep_until(now + duration, now).await;
}

/// Waits for `duration` by tokio's clock, also if that is paused. For what recurs as long as a
/// connection lasts: by real time it would keep a paused clock from moving on.
#[cfg(feature = "redis")]
pub(crate) async fn sleep_by_tokio(duration: Duration) {
    tokio::time::sleep(duration).await;
}

async fn sleep_until(at: Instant, now: Instant) {
    if !are_apart(now, tokio::time::Instant::now()) {
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
    left >= Duration::from_millis(1) && tokio::task::spawn_blocking(move || thread::sleep(left.min(NAP))).await.is_ok()
}

/// Whether the clock of tokio stands still, or has. Its first millisecond does not show it.
fn are_apart(real: Instant, of_tokio: tokio::time::Instant) -> bool {
    const BIT: Duration = Duration::from_millis(1);
    // A sum is cheaper than a difference, and this is done for every call.
    let tokio = of_tokio.into_std();
    tokio + BIT < real || real + BIT < tokio
}

/// Why nothing can be waited for without a runtime.
pub(crate) const NO_RUNTIME: &str = "it has to wait, which needs a tokio runtime, and none is running here";
/// Why nothing can be waited for on a runtime without timers.
const NO_TIMERS: &str = "it has to wait, and the tokio runtime has no timers: build it with `enable_all()`";

/// Whether the current runtime has timers, or why nothing can be waited for. Without them, tokio's
/// own functions panic.
///
/// A program that is compiled with `panic = "abort"` ends here on a runtime without timers, with
/// the message of tokio, which names `enable_time`: there is no way to ask without a panic.
pub(crate) fn timers() -> Result<(), &'static str> {
    thread_local! {
        static KNOWN: Cell<Option<(Id, bool)>> = const { Cell::new(None) };
    }
    let Ok(runtime) = Handle::try_current() else { return Err(NO_RUNTIME) };
    let id = runtime.id();
    let has_timers = match KNOWN.get() {
        Some((known, has_timers)) if known == id => has_timers,
        _ => catch_unwind(AssertUnwindSafe(|| drop(tokio::time::sleep(Duration::ZERO)))).is_ok(),
    };
    KNOWN.set(Some((id, has_timers)));
    if has_timers { Ok(()) } else { Err(NO_TIMERS) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use std::panic::{set_hook, take_hook};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A panic is a message on standard error, which callers could fill.
    #[test]
    fn a_runtime_without_timers_panics_once() {
        let without = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(without.block_on(async { timers() }), Err(NO_TIMERS));
        let (this_thread, panics) = (thread::current().id(), Arc::new(AtomicUsize::new(0)));
        let (counted, former) = (Arc::clone(&panics), take_hook());
        set_hook(Box::new(move |info| {
            if thread::current().id() == this_thread {
                counted.fetch_add(1, Ordering::Relaxed);
            } else {
                former(info);
            }
        }));
        assert_eq!(without.block_on(async { timers() }), Err(NO_TIMERS));
        assert_eq!(panics.load(Ordering::Relaxed), 0, "it is known");
    }
}
