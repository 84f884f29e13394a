//! [`Refresh`]: the task that asks for the slot map, one at a time and not too often.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::nodes::Nodes;
use crate::error::StoreError;

/// The shortest time between two questions for the slots.
const ASK_EVERY: Duration = Duration::from_millis(250);
/// The time without an answer after which callers do not wait for the first map any more.
const SLOW: Duration = Duration::from_secs(1);
/// The time after which the runtime may not drive the task: a caller does so for a [`MOMENT`].
const LONG: Duration = Duration::from_millis(150);
const MOMENT: Duration = Duration::from_millis(5);

/// Asks the nodes of a cluster for the slots again.
pub(super) struct Refresh {
    nodes: Arc<Nodes>,
    last: Mutex<Option<LastRefresh>>,
    /// The last outcome; `None` until the first.
    outcome: watch::Sender<Option<Result<(), StoreError>>>,
}

/// The last question for the slots.
struct LastRefresh {
    task: JoinHandle<()>,
    /// When it was asked, or will be.
    at: Instant,
}

impl Refresh {
    pub(super) fn new(nodes: Arc<Nodes>) -> Arc<Self> {
        Arc::new_cyclic(|refresh: &Weak<Self>| {
            let refresh = Weak::clone(refresh);
            let begin = move || refresh.upgrade().iter().for_each(Self::begin);
            let is_first = nodes.refresh.set(Box::new(begin)).is_ok();
            debug_assert!(is_first, "nodes have one refresh");
            Self {
                nodes,
                last: Mutex::default(),
                outcome: watch::Sender::new(None),
            }
        })
    }

    fn last(&self) -> MutexGuard<'_, Option<LastRefresh>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to ask for the slots, once in [`ASK_EVERY`], unless that is under way.
    pub(super) fn begin(self: &Arc<Self>) {
        let (mut last, now) = (self.last(), Instant::now());
        if last.as_ref().is_none_or(|last| last.task.is_finished()) {
            let at = last
                .as_ref()
                .map_or(now, |last| now.max(last.at + ASK_EVERY));
            let task = self.nodes.runtime.spawn(Arc::clone(self).ask_again(at));
            *last = Some(LastRefresh { task, at });
        }
    }

    /// [`begin`](Self::begin)s, and returns the last outcome. Waits for the first one, and for a
    /// moment if one takes long: a runtime that runs only while a caller blocks on it would never
    /// finish the task if its calls were answered at once.
    pub(super) async fn outcome(self: &Arc<Self>) -> Result<(), StoreError> {
        let mut outcome = self.outcome.subscribe();
        self.begin();
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

    async fn ask_again(self: Arc<Self>, at: Instant) {
        tokio::time::sleep(at.saturating_duration_since(Instant::now())).await;
        let mut answer = pin!(self.nodes.ask_for_slots());
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
