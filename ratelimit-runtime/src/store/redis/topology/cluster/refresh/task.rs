//! [`RefreshTask`]: asks for the slots once.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::Refresh;
use crate::error::StoreError;
use crate::store::redis::connection::pulse::BEAT;
use crate::store::redis::topology::cluster::discovery;
use crate::store::redis::topology::cluster::state::{ClusterState, Discovery};
use crate::{observe, real_time};

/// After this long without an answer, callers do not wait for the first map any more.
const SLOW: Duration = Duration::from_secs(1);
/// After that and this long, all nodes are asked anew.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// A task that asks for the slots. It ends with the store, and when another has taken its place.
pub(in super::super) struct RefreshTask {
    pub(in super::super) shared: Weak<ClusterState>,
    pub(in super::super) refresh: Arc<Refresh>,
}

impl RefreshTask {
    pub(in super::super) async fn run(self) {
        if let Some(pause) = self.refresh.pause
            && self.within(None, real_time::sleep(pause)).await.is_none()
        {
            return;
        }
        let Some(candidates) = self.current().map(|shared| shared.candidates()) else { return };
        let mut slots = pin!(discovery::slots(candidates));
        let silent = || StoreError::unavailable("no node of the Redis cluster answers; still trying");
        let mut answer = self.within(Some(SLOW), slots.as_mut()).await;
        if answer.is_none() {
            let Some(shared) = self.current() else { return };
            shared.fail(silent());
            drop(shared);
            self.refresh.pulse.progress();
            answer = self.within(Some(ANSWER_TIMEOUT), slots).await;
        }
        let Some(shared) = self.current() else { return };
        match answer.unwrap_or_else(|| Err(silent())) {
            Ok(ranges) => shared.learn(&ranges),
            Err(error) => {
                observe::log::no_slots(&error);
                shared.fail(error);
            }
        }
    }

    /// The outcome of `work` within this time, counted in turns of this task: without turns, none
    /// passes.
    async fn within<T>(&self, time: Option<Duration>, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        let mut waited = Duration::ZERO;
        loop {
            self.refresh.pulse.due_in(Some(BEAT));
            tokio::select! {
                biased;
                done = work.as_mut() => return Some(done),
                () = real_time::sleep(BEAT) => waited += BEAT,
            }
            if self.current().is_none() || time.is_some_and(|time| waited >= time) {
                return None;
            }
        }
    }

    /// What is known, if the store is still there and no other task has taken the place of this
    /// one.
    fn current(&self) -> Option<Arc<ClusterState>> {
        self.shared.upgrade().filter(|shared| shared.refreshes.is_current(&self.refresh))
    }
}

impl Drop for RefreshTask {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade()
            && shared.refreshes.end(&self.refresh)
        {
            // Where the runtime has ended in the middle, callers would wait for ever.
            shared.discovery.send_if_modified(|discovery| {
                let is_open = matches!(discovery, Discovery::Pending) && shared.map.load().is_none();
                if is_open {
                    *discovery = Discovery::Failed(StoreError::unavailable("asking for the slots was cut short"));
                }
                is_open
            });
        }
        self.refresh.pulse.due_in(None);
        self.refresh.pulse.progress();
    }
}
