//! [`collect`]: collects the decisions made while a future runs.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tokio::task::futures::TaskLocalFuture;

use super::observation::Observation;

tokio::task_local! {
    /// The decisions of the innermost collector around the running future.
    static COLLECTING: RefCell<Vec<Observation>>;
}

/// The number of collectors. It is most often 0, so that most decisions look no further.
static COLLECTORS: AtomicUsize = AtomicUsize::new(0);

/// The most decisions that one collector keeps.
const MOST: usize = 10_000;

/// Runs a future, and returns its output with the decisions made meanwhile, in order. The last one
/// of a refused call is its refusal. Of more than 10,000, those between the first 9,999 and the
/// last are left out. Tasks that the future spawns are not included; a collector nested in it keeps
/// its own decisions.
///
/// ```
/// # #[cfg(feature = "macros")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use ratelimit_runtime::{RateLimitError, RateLimiter, observe, rate_limit};
///
/// #[rate_limit(key = "<user>", window = "60s", max = 2)]
/// async fn search(user: &str) -> Result<(), RateLimitError> {
///     Ok(())
/// }
///
/// let (out, decisions) = RateLimiter::memory().scope(observe::collect(search("alice"))).await;
/// assert!(out.is_ok());
/// assert_eq!(decisions[0].decision().remaining(), 1);
/// assert_eq!(decisions[0].limits()[0].to_string(), "2/1m");
/// # }
/// # #[cfg(not(feature = "macros"))]
/// # fn main() {}
/// ```
pub fn collect<F: Future>(future: F) -> impl Future<Output = (F::Output, Vec<Observation>)> {
    COLLECTORS.fetch_add(1, Ordering::Relaxed);
    Collected {
        future: COLLECTING.scope(RefCell::default(), future),
        counted: Counted,
    }
}

pin_project! {
    /// An `async` block would hold the future twice: as its argument, and where it is awaited.
    struct Collected<F> {
        #[pin]
        future: TaskLocalFuture<RefCell<Vec<Observation>>, F>,
        counted: Counted,
    }
}

/// Counts in [`COLLECTORS`] until it is dropped.
struct Counted;

impl Drop for Counted {
    fn drop(&mut self) {
        COLLECTORS.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<F: Future> Future for Collected<F> {
    type Output = (F::Output, Vec<Observation>);

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let output = ready!(this.future.as_mut().poll(cx));
        let collected = this.future.take_value().map(RefCell::into_inner);
        debug_assert!(
            collected.is_some(),
            "it is taken once, when the future ends"
        );
        Poll::Ready((output, collected.unwrap_or_default()))
    }
}

/// `true` if decisions of this task are collected now.
#[inline]
pub(super) fn listens() -> bool {
    COLLECTORS.load(Ordering::Relaxed) > 0 && COLLECTING.try_with(|_| ()).is_ok()
}

pub(super) fn decision(observation: impl FnOnce() -> Observation) {
    let _ = COLLECTING.try_with(|collecting| {
        let mut decisions = collecting.borrow_mut();
        if decisions.len() == MOST {
            let _ = decisions.pop(); // the last one may be a refusal, which matters most
        }
        decisions.push(observation());
    });
}
