//! The task that asks for the slot map: one at a time, and not too often. It asks several nodes and
//! does not wait for slow ones.

use std::pin::pin;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redis::{Cmd, Value, cmd};
use tokio::task::{JoinHandle, JoinSet};

use super::Cluster;
use super::slot_map::SlotRange;
use crate::error::{StoreError, StoreErrorKind};
use crate::real_time;
use crate::store::Health;
use crate::store::redis::batcher::{Batcher, Failure};
use crate::store::redis::errors;
use crate::store::redis::link::{Lost, log_in};
use crate::store::redis::settings::server::TcpAddress;

/// The slots are asked for no more often than this.
const ASK_EVERY: Duration = Duration::from_millis(250);
/// How many masters are asked, at most, and how many seeds.
const MAX_ASKED: usize = 16;
/// After this long without an answer, the next node is asked as well: a fifth of the timeout that
/// callers usually have.
const STAGGER: Duration = Duration::from_millis(20);
/// After this long without an answer, callers do not wait for the first map any more.
const SLOW: Duration = Duration::from_secs(1);
/// After this long, its runtime may not drive the task: a caller does so for a moment.
const LONG: Duration = Duration::from_millis(150);
const MOMENT: Duration = Duration::from_millis(5);

/// The last time that the slots were asked for.
pub(super) struct Refresh {
    task: JoinHandle<()>,
    /// When it began to ask, or will.
    at: Instant,
}

impl Cluster {
    fn last_refresh(&self) -> MutexGuard<'_, Option<Refresh>> {
        self.refresh.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to ask for the slots, soon, unless that is under way.
    pub(super) fn refresh(self: &Arc<Self>) {
        let (mut last, now) = (self.last_refresh(), Instant::now());
        if last.as_ref().is_none_or(|last| last.task.is_finished()) {
            let at = last
                .as_ref()
                .map_or(now, |last| now.max(last.at + ASK_EVERY));
            let task = self.runtime.spawn(Arc::clone(self).ask_again(at));
            *last = Some(Refresh { task, at });
        }
    }

    /// The same. Waits while there has been no outcome at all, and for a moment where one takes
    /// long: a runtime that runs only while a caller blocks on it would never end the task, if its
    /// calls were answered at once. The error is that of the last outcome.
    pub(super) async fn refreshed(self: &Arc<Self>) -> Result<(), StoreError> {
        let mut outcome = self.outcome.subscribe();
        self.refresh();
        let takes_long = |last: &Refresh| !last.task.is_finished() && last.at.elapsed() > LONG;
        let takes_long = self.last_refresh().as_ref().is_some_and(takes_long);
        if outcome.borrow_and_update().is_none() {
            // It fails where the runtime ends.
            let _ = outcome.changed().await;
        } else if takes_long {
            let _ = real_time::timeout(MOMENT, outcome.changed()).await;
        }
        outcome.borrow().clone().unwrap_or(Ok(()))
    }

    async fn ask_again(self: Arc<Self>, at: Instant) {
        real_time::sleep(at.saturating_duration_since(Instant::now())).await;
        let mut answer = pin!(self.ask_for_slots());
        let in_time = real_time::timeout(SLOW, answer.as_mut()).await;
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

    /// Asks for the slots, and learns them from the first answer that names any.
    ///
    /// # Errors
    ///
    /// If there is none: the first `Misconfigured`, or else the last error.
    pub(super) async fn ask_for_slots(self: &Arc<Self>) -> Result<(), StoreError> {
        let mut asked = JoinSet::new();
        // Those that are known to serve, in an order that differs between processes; then the
        // seeds.
        let serving: Vec<_> = self
            .map()
            .masters()
            .filter(|master| master.health() == Health::Up)
            .cloned()
            .collect();
        let serving = serving
            .into_iter()
            .take(MAX_ASKED)
            .map(|master| (master.address.clone(), Some(master)));
        let seeds = self
            .seeds
            .iter()
            .take(MAX_ASKED)
            .map(|seed| (seed.clone(), None));
        for ((at, master), turn) in serving.chain(seeds).zip(0..) {
            let cluster = Arc::clone(self);
            asked.spawn(async move {
                if turn > 0 {
                    real_time::sleep(STAGGER * turn).await;
                }
                let command = cmd("CLUSTER").arg("SLOTS").take();
                let reply = if let Some(master) = master {
                    ask(&cluster.batcher(&master), &command).await?
                } else {
                    // Over a connection of its own: a seed may be a replica.
                    let connection = log_in(&Arc::new(cluster.template.at(&at))).await?;
                    let ended = |Lost| StoreError::unavailable("the connection to Redis ended");
                    connection
                        .send(&command, Instant::now())
                        .await
                        .map_err(ended)?
                };
                ranges(&reply, &at)
            });
        }
        let mut failed =
            StoreError::unavailable("no node of the Redis cluster can be asked for its slots");
        while let Some(answer) = asked.join_next().await {
            match answer {
                Ok(Ok(ranges)) => {
                    self.map().replace(ranges);
                    return Ok(());
                }
                Ok(Err(error)) if failed.kind() != StoreErrorKind::Misconfigured => failed = error,
                _ => {}
            }
        }
        Err(failed)
    }
}

/// The slots in the reply of a node.
fn ranges(reply: &Value, at: &TcpAddress) -> Result<Vec<SlotRange>, StoreError> {
    if let Value::ServerError(error) = reply {
        let is_no_cluster = error
            .details()
            .is_some_and(|text| text.contains("cluster support disabled"));
        return Err(if is_no_cluster {
            StoreError::misconfigured(format!(
                "Redis at {at} is not part of a cluster: write redis:// for a single server"
            ))
        } else {
            errors::from_server(error)
        });
    }
    match SlotRange::all_of(reply, &at.host) {
        Some(ranges) if ranges.is_empty() => Err(StoreError::unavailable(format!(
            "Redis at {at} knows of no slots that a node serves"
        ))),
        Some(ranges) => Ok(ranges),
        None => Err(errors::unexpected_reply()),
    }
}

/// Sends a command that changes nothing. An error of the server is a value as any other.
pub(super) async fn ask(batcher: &Batcher, command: &Cmd) -> Result<Value, StoreError> {
    match batcher.send(command, false).await {
        Ok(reply) => Ok(reply),
        Err(Failure::Server(error)) => Ok(Value::ServerError(error)),
        Err(Failure::Other(error)) => Err(error),
    }
}
