//! Waiting in real time, also under a tokio clock that is paused: a server on the network takes its time whatever a
//! test says the time is.

use std::future::Future;
use std::panic::catch_unwind;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

/// The time was up first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Elapsed;

/// How long one thread sleeps for a waiter. A runtime that ends waits for it.
const NAP: Duration = Duration::from_millis(10);

/// Waits for `duration`.
pub(crate) async fn sleep(duration: Duration) {
    let until = Instant::now() + duration;
    if !is_paused() {
        tokio::time::sleep(duration).await;
    }
    // On a paused clock, tokio's timers fire as soon as nothing else is to be done. Then threads wait.
    loop {
        let left = until.saturating_duration_since(Instant::now());
        // Timers are a millisecond coarse.
        if left < Duration::from_millis(1) {
            return;
        }
        if tokio::task::spawn_blocking(move || std::thread::sleep(left.min(NAP))).await.is_err() {
            return;
        }
    }
}

/// Whether the clock of tokio stands still, or has. In the first millisecond nobody can tell.
fn is_paused() -> bool {
    let (tokio, real) = (tokio::time::Instant::now().into_std(), Instant::now());
    let apart = tokio.saturating_duration_since(real).max(real.saturating_duration_since(tokio));
    apart > Duration::from_millis(1)
}

/// Waits for `future`, but not longer than `duration`. What is ready at once needs no timer.
pub(crate) async fn timeout<F: Future>(duration: Duration, future: F) -> Result<F::Output, Elapsed> {
    let mut future = pin!(future);
    let mut time = pin!(None);
    std::future::poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        if time.is_none() {
            time.set(Some(sleep(duration)));
        }
        match time.as_mut().as_pin_mut() {
            Some(time) => time.poll(cx).map(|()| Err(Elapsed)),
            None => Poll::Pending,
        }
    })
    .await
}

/// Whether waiting is possible here: on a tokio runtime with timers.
pub(crate) fn is_available() -> bool {
    // tokio has no other way to tell.
    Handle::try_current().is_ok() && catch_unwind(|| drop(tokio::time::sleep(Duration::ZERO))).is_ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_paused_clock_does_not_shorten_the_wait() {
        let start = Instant::now();
        sleep(Duration::from_millis(60)).await;
        assert!(start.elapsed() >= Duration::from_millis(58));
        let start = Instant::now();
        let never = std::future::pending::<()>();
        assert_eq!(timeout(Duration::from_millis(60), never).await, Err(Elapsed));
        assert!(start.elapsed() >= Duration::from_millis(58));
    }

    #[tokio::test]
    async fn what_comes_in_time_is_given() {
        let late = async {
            sleep(Duration::from_millis(5)).await;
            1
        };
        assert_eq!(timeout(Duration::from_secs(10), late).await, Ok(1));
        assert_eq!(timeout(Duration::ZERO, std::future::ready(2)).await, Ok(2));
    }

    #[test]
    fn a_runtime_without_timers_is_known() {
        let runtime = |timers: bool| {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            if timers { builder.enable_time().build() } else { builder.build() }
        };
        assert!(!is_available());
        assert!(runtime(true).unwrap().block_on(async { is_available() }));
        assert!(!runtime(false).unwrap().block_on(async { is_available() }));
        assert_eq!(runtime(false).unwrap().block_on(timeout(Duration::ZERO, std::future::ready(1))), Ok(1));
    }
}
