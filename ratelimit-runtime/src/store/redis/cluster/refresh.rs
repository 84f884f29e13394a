//! When the slots are asked for: by one task at a time, and not too often.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use super::discovery;
use super::last_refresh::LastRefresh;
use super::state::ClusterState;
use crate::error::StoreError;
use crate::{observe, real_time};

/// After this long without an answer, callers do not wait for the first map any more.
const SLOW: Duration = Duration::from_secs(1);
/// After that and this long, all nodes are asked anew.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// How often the task has a turn, at least.
const BEAT: Duration = Duration::from_millis(50);
impl ClusterState {
    /// Begins to ask for the slots, soon, unless that is under way.
    pub(super) fn refresh(self: &Arc<Self>) {
        // Outside of a runtime there is no caller who would wait for it.
        let Ok(runtime) = Handle::try_current() else { return };
        let (mut last, now) = (self.last_refresh(), Instant::now());
        if !last.is_running() {
            let at = now + last.pause(now);
            let task = runtime.spawn(Arc::clone(self).ask_at(at));
            *last = LastRefresh { task: Some(task), at: Some(at), turn: Some(at) };
        }
    }

    /// The same. Waits where the runtime does not drive the task: one that runs only while a caller
    /// blocks on it would never end it, where calls are answered at once.
    pub(super) async fn refreshed(self: &Arc<Self>) {
        self.refresh();
        let mut outcome = self.first_map.subscribe();
        let is_late = self.last_refresh().is_late(Instant::now());
        if is_late {
            let _ = outcome.changed().await;
        }
    }

    async fn ask_at(self: Arc<Self>, at: Instant) {
        real_time::sleep(at.saturating_duration_since(Instant::now())).await;
        let silent = || StoreError::unavailable("no node of the Redis cluster answers; still trying");
        let mut slots = pin!(discovery::slots(self.candidates()));
        let mut answer = self.within(SLOW, slots.as_mut()).await;
        if answer.is_none() {
            self.fail(silent());
            answer = self.within(ANSWER_TIMEOUT, slots).await;
        }
        match answer.unwrap_or_else(|| Err(silent())) {
            Ok(ranges) => self.learn(&ranges),
            Err(error) => {
                observe::log::no_slots(&error);
                self.fail(error);
            }
        }
    }

    /// The outcome of `work` within this time, counted in turns of the task: without turns, none
    /// passes.
    async fn within<T>(&self, mut left: Duration, mut work: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        while !left.is_zero() {
            let (now, beat) = (Instant::now(), left.min(BEAT));
            self.last_refresh().turn = Some(now);
            if let Ok(done) = real_time::timeout_at(now + beat, work.as_mut()).await {
                return Some(done);
            }
            left -= beat;
        }
        None
    }
}
