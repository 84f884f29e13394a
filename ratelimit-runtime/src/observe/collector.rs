//! [`collect`]: the decisions that are made while a future runs.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::observation::{Observation, Observed};

thread_local! {
    /// The decisions of the innermost collector that is being polled on this thread.
    static COLLECTING: RefCell<Option<Vec<Observation>>> = const { RefCell::new(None) };
    /// Whether there is one: cheaper to look at than what it has collected.
    static LISTENS: Cell<bool> = const { Cell::new(false) };
}

/// How many decisions one collector keeps; further ones are left out.
const MOST: usize = 10_000;

/// Runs a future, and gives its output together with the decisions that were made meanwhile, in
/// their order: the last one of a refused call is its refusal. Tasks that it spawns are not part of
/// it; a collector nested in it keeps its own decisions.
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
/// assert_eq!(decisions[0].limits()[0].to_string(), "2/60s");
/// # }
/// # #[cfg(not(feature = "macros"))]
/// # fn main() {}
/// ```
pub fn collect<F: Future>(future: F) -> Collected<F> {
    Collected { future, decisions: Vec::new() }
}

pin_project! {
    /// A future with the decisions that are made while it runs; made by [`collect`].
    #[must_use = "futures do nothing unless awaited"]
    pub struct Collected<F> {
        #[pin]
        future: F,
        decisions: Vec<Observation>,
    }
}

impl<F: Future> Future for Collected<F> {
    type Output = (F::Output, Vec<Observation>);

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let turn = Turn::begin(this.decisions);
        let polled = this.future.poll(cx);
        drop(turn);
        polled.map(|output| (output, mem::take(this.decisions)))
    }
}

/// While this lives, decisions go to one collector. It is dropped at the end of the poll, also if
/// that panics.
struct Turn<'a> {
    decisions: &'a mut Vec<Observation>,
    outer: Option<Vec<Observation>>,
}

impl<'a> Turn<'a> {
    fn begin(decisions: &'a mut Vec<Observation>) -> Self {
        let outer = COLLECTING.with_borrow_mut(|collecting| collecting.replace(mem::take(decisions)));
        LISTENS.set(true);
        Self { decisions, outer }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let outer = self.outer.take();
        LISTENS.set(outer.is_some());
        let ours = COLLECTING.with_borrow_mut(|collecting| mem::replace(collecting, outer));
        *self.decisions = ours.unwrap_or_default();
    }
}

impl<F> fmt::Debug for Collected<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collected").field("decisions", &self.decisions).finish_non_exhaustive()
    }
}

/// Whether decisions of this thread are collected now.
#[inline]
pub(super) fn listens() -> bool {
    LISTENS.get()
}

pub(super) fn decision(observed: &Observed<'_>) {
    // At the end of a thread there may be no collector any more.
    let _ = COLLECTING.try_with(|collecting| {
        if let Ok(mut collecting) = collecting.try_borrow_mut()
            && let Some(decisions) = collecting.as_mut()
            && decisions.len() < MOST
        {
            decisions.push(Observation::of(observed));
        }
    });
}
