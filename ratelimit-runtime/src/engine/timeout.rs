//! The timeout of a check: until then it waits for the answer of its store, and no longer.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

use super::state::Engine;
use crate::error::StoreError;
use crate::observe;
use crate::pace::{self, Elapsed};
use crate::store::{Answer, BuiltInStore as _, Request};

/// The time that a check has, with all its parts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Time {
    pub(super) start: Instant,
    /// The moment of the timeout.
    pub(super) end: Instant,
}

impl Time {
    pub(super) fn is_over(self) -> bool {
        Instant::now() >= self.end
    }

    /// The request, of a caller that waits until this timeout.
    pub(super) fn of(self, request: Request<'_>) -> Request<'_> {
        Request {
            timeout_at: Some(self.end.into_std()),
            ..request
        }
    }

    /// The error of a check whose time is over.
    pub(super) fn out(self) -> StoreError {
        let elapsed = self.start.elapsed();
        StoreError::timed_out(format!("no answer from the store within {elapsed:?}"))
    }
}

impl Engine {
    /// Waits for an answer until the end of `time`.
    pub(super) async fn answered<T: Unpin>(
        &self,
        time: Time,
        answer: &mut Answer<'_, T>,
    ) -> Result<T, StoreError> {
        if let Some(result) = answer.take_known() {
            return result;
        }
        if let Err(why) = pace::can_wait() {
            return Err(StoreError::misconfigured(format!(
                "a check on this store cannot be made here: {why}"
            )));
        }
        let answer = pin!(async {
            let answer = pace::timeout_at(time.end, answer).await;
            answer.unwrap_or_else(|Elapsed| Err(time.out()))
        });
        observe::timed(|| self.store.server(), answer).await
    }
}

/// A future on the heap.
pub(super) type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Waits for all `futures` at once; gives their outputs in order.
pub(super) async fn all<T>(futures: impl IntoIterator<Item = Boxed<'_, T>>) -> Vec<T> {
    let mut each: Vec<_> = futures.into_iter().map(|future| (future, None)).collect();
    poll_fn(|cx| {
        let mut outcome = Poll::Ready(());
        for (future, output) in each.iter_mut().filter(|(_, output)| output.is_none()) {
            match future.as_mut().poll(cx) {
                Poll::Ready(done) => *output = Some(done),
                Poll::Pending => outcome = Poll::Pending,
            }
        }
        outcome
    })
    .await;
    each.into_iter().filter_map(|(_, output)| output).collect()
}

/// The longest that a late answer is awaited to release its charge: a reservation has lapsed then.
pub(super) const LATEST: Duration = Duration::from_secs(60);
