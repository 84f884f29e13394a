//! What several test programs share.

#![allow(dead_code, reason = "every test program uses another part")]

pub(crate) mod asking;
pub(crate) mod browser;
pub(crate) mod clock;
pub(crate) mod cluster;
pub(crate) mod deny_cache;
pub(crate) mod deployment;
pub(crate) mod fake_sentinel;
pub(crate) mod layer;
pub(crate) mod listing;
pub(crate) mod pair;
pub(crate) mod proxy;
pub(crate) mod random;
pub(crate) mod redis;
pub(crate) mod sentinel;
pub(crate) mod tls;
pub(crate) mod worker;

use std::fmt::Debug;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use ratelimit_runtime::{
    Decision, OnUnavailable, RateLimitError, RateLimiter, RateLimiterBuilder, Source,
};

/// `name` with a suffix that no other call, process or earlier run has: tests that share a server
/// never share a key.
pub(crate) fn unique(name: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let nanos = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos());
    format!(
        "{name}-{}-{nanos:x}-{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}

/// A limiter that never answers by itself: without its store a check fails, and with it the test.
pub(crate) fn strict() -> RateLimiterBuilder {
    RateLimiter::builder()
        .timeout(Duration::from_secs(30))
        .on_unavailable(OnUnavailable::Deny)
}

/// The text of the error of a mistake in the program.
#[track_caller]
pub(crate) fn misconfigured<T: Debug>(outcome: Result<T, RateLimitError>) -> String {
    match outcome {
        Err(RateLimitError::Misconfigured(error)) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Fails where the text has not this part.
#[track_caller]
pub(crate) fn says(text: &str, part: &str) {
    assert!(text.contains(part), "{part:?} is not in {text}");
}

/// Waits until the limiter has nothing left to settle.
pub(crate) async fn settled(limiter: &RateLimiter) {
    let minute = Duration::from_secs(60);
    limiter.settled_within(minute).await.unwrap();
}

/// Who decided a call; `None` where its error is an outage or a mistake.
pub(crate) fn source(called: &Result<Decision, RateLimitError>) -> Option<Source> {
    match called {
        Ok(decision) => Some(decision.source()),
        Err(error) => error.decision().map(Decision::source),
    }
}

/// Waits until this holds, and gives how long that took.
pub(crate) async fn until(
    what: &str,
    within: Duration,
    mut holds: impl AsyncFnMut() -> bool,
) -> Duration {
    let start = Instant::now();
    while !holds().await {
        assert!(start.elapsed() < within, "{what}: not within {within:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    start.elapsed()
}

/// Polls so many times, each at its task's next turn or when it is woken, and then gives up.
pub(crate) async fn polled<T>(future: impl Future<Output = T>, mut polls: u64) -> Option<T> {
    let mut future = pin!(future);
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if polls == 0 => Poll::Ready(None),
        Poll::Pending => {
            polls -= 1;
            // Every second poll waits to be woken.
            if polls.is_multiple_of(2) {
                cx.waker().wake_by_ref();
            }
            Poll::Pending
        }
    })
    .await
}

/// Waits for what the clock of a test cannot bring about; says whether it came. It gives up late,
/// for slow machines.
pub(crate) fn eventually(done: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(20) {
        if done() {
            return true;
        }
        thread::sleep(Duration::from_millis(5));
    }
    false
}
