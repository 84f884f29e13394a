//! [`Refresh`]: the question for the slots, asked by one task at a time and not too often.

use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::error::StoreError;

/// The shortest time between two questions for the slots.
pub(super) const ASK_EVERY: Duration = Duration::from_millis(250);
/// The time without an answer after which callers stop waiting for the first map.
const SLOW: Duration = Duration::from_secs(1);
/// The time after which the runtime may not drive the task: a caller does so for a [`MOMENT`].
const LONG: Duration = Duration::from_millis(150);
const MOMENT: Duration = Duration::from_millis(5);

/// The last question for the slots, and its outcome.
#[derive(Default)]
pub(super) struct Refresh {
    last: Mutex<Option<LastRefresh>>,
    /// The last outcome; `None` until the first.
    outcome: watch::Sender<Option<Result<(), StoreError>>>,
}

/// The last question for the slots.
struct LastRefresh {
    task: JoinHandle<()>,
    /// The time at which the question was or will be sent.
    at: Instant,
}

impl Refresh {
    fn last(&self) -> MutexGuard<'_, Option<LastRefresh>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a task that [asks](Self::ask) for the slots, at most once in [`ASK_EVERY`], unless
    /// one is running.
    pub(super) fn begin(&self, start: impl FnOnce(Instant) -> JoinHandle<()>) {
        let (mut last, now) = (self.last(), Instant::now());
        if last.as_ref().is_none_or(|last| last.task.is_finished()) {
            let at = last
                .as_ref()
                .map_or(now, |last| now.max(last.at + ASK_EVERY));
            let task = start(at);
            *last = Some(LastRefresh { task, at });
        }
    }

    /// Returns the last outcome, after `begin`. Waits for the first one, and for a moment if one
    /// takes long: a runtime that runs only while a caller blocks on it would never finish the task
    /// if its calls were answered at once.
    pub(super) async fn outcome(&self, begin: impl FnOnce()) -> Result<(), StoreError> {
        let mut outcome = self.outcome.subscribe();
        begin();
        let takes_long = |last: &LastRefresh| !last.task.is_finished() && last.at.elapsed() > LONG;
        let takes_long = self.last().as_ref().is_some_and(takes_long);
        if outcome.borrow_and_update().is_none() {
            // It fails where the runtime ends.
            let _ = outcome.changed().await;
        } else if takes_long {
            let _ = tokio::time::timeout(MOMENT, outcome.changed()).await;
        }
        outcome.borrow().clone().unwrap_or(Ok(()))
    }

    /// Waits for the `answer` about the slots, which is asked for at a time.
    pub(super) async fn ask(
        &self,
        at: Instant,
        answer: impl Future<Output = Result<(), StoreError>>,
    ) {
        tokio::time::sleep(at.saturating_duration_since(Instant::now())).await;
        let mut answer = pin!(answer);
        let in_time = tokio::time::timeout(SLOW, answer.as_mut()).await;
        let outcome = if let Ok(outcome) = in_time {
            outcome
        } else {
            let silent =
                StoreError::unavailable("no node of the Redis cluster answers; still trying");
            self.outcome.send_replace(Some(Err(silent)));
            answer.await
        };
        self.outcome.send_replace(Some(outcome));
    }
}
