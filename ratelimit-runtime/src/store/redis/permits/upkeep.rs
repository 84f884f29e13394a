//! The task that leaves and renews for the permits of a runtime. It ends with the runtime, or the
//! store once nothing is left to be sent.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, Id};
use tokio::sync::mpsc;

use super::open_permits::Upkeep;
use super::sending::{PermitState, Sending};
use crate::error::StoreError;
use crate::real_time;
use crate::store::redis::connection::nodes;
use crate::store::redis::connection::pulse::Pulse;
use crate::store::redis::wire::slot::Slot;

/// How often, while permits are open, it looks for connections that were made anew and for what
/// other runtimes do not drive.
const TICK: Duration = Duration::from_millis(250);

/// Leases that are to be renewed within this time share calls.
const GATHER: Duration = Duration::from_millis(50);

/// The runtime of the caller, if there is one.
pub(super) fn runtime() -> Option<Id> {
    Handle::try_current().ok().map(|runtime| runtime.id())
}

/// The runtime of the caller, which has such a task from now on.
///
/// # Errors
///
/// `Misconfigured` outside of a tokio runtime, or on one that lacks something.
pub(super) fn current(permits: &Arc<PermitState>) -> Result<Id, StoreError> {
    let handle = nodes::runtime()?;
    let runtime = handle.id();
    if permits.lock().has_driver(runtime) {
        return Ok(runtime);
    }
    nodes::timers()?;
    let (wake, wakes) = mpsc::channel(1);
    let pulse = Arc::new(Pulse::new());
    {
        let mut open = permits.lock();
        // Another thread of the runtime may have been first.
        if open.has_driver(runtime) {
            return Ok(runtime);
        }
        open.add_driver(runtime, Arc::clone(&pulse), wake);
    }
    handle.spawn(UpkeepTask { permits: Arc::downgrade(permits), runtime, pulse }.run(wakes));
    Ok(runtime)
}

struct UpkeepTask {
    permits: Weak<PermitState>,
    runtime: Id,
    pulse: Arc<Pulse>,
}

impl UpkeepTask {
    async fn run(self, mut wakes: mpsc::Receiver<Arc<PermitState>>) {
        let mut permits = self.permits.upgrade();
        while let Some(current) = permits.take() {
            let wait = self.turn(&current);
            // The store may be dropped while this waits.
            drop(current);
            self.pulse.due_in(wait);
            permits = match wait {
                None => wakes.recv().await,
                Some(wait) => tokio::select! {
                    biased;
                    woken = wakes.recv() => woken,
                    () = real_time::sleep(wait) => self.permits.upgrade(),
                },
            };
        }
    }

    /// Sends what is due. Gives the time until something is, or is to be looked for.
    fn turn(&self, permits: &Arc<PermitState>) -> Option<Duration> {
        let now = Instant::now();
        loop {
            let mut open = permits.lock();
            open.adopt(self.runtime);
            open.note_connections(self.runtime, permits.connections.count(), now);
            let (taken, next) = open.take_due(self.runtime, now);
            if taken.is_empty() {
                let next = next.map(|next| next.saturating_duration_since(Instant::now()).clamp(GATHER, TICK));
                return next.or((!open.is_empty()).then_some(TICK));
            }
            drop(open);
            let mut slots: BTreeMap<Slot, Vec<Upkeep>> = BTreeMap::new();
            for upkeep in taken {
                slots.entry(permits.connections.slot(upkeep.place.as_request().key())).or_default().push(upkeep);
            }
            for (slot, batch) in slots {
                permits.lock().note_sending(self.runtime);
                tokio::spawn(Sending::new(permits, batch).run(slot));
            }
        }
    }
}

impl Drop for UpkeepTask {
    fn drop(&mut self) {
        if let Some(permits) = self.permits.upgrade() {
            let mut open = permits.lock();
            open.remove_driver(self.runtime);
            open.wake(&permits);
        }
        self.pulse.due_in(None);
    }
}
