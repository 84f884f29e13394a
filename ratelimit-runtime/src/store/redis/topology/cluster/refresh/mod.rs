//! [`Refreshes`]: which task asks for the slots, and when the next one may.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Id;

use crate::store::redis::connection::nodes::runtime;
use crate::store::redis::connection::pulse::{BEAT, Pulse};

pub(super) mod task;

/// The slots are asked for no more often than this.
const ASK_EVERY: Duration = Duration::from_millis(250);

/// One refresh for all runtimes, which share the map. One that its runtime does not drive lapses:
/// another runtime takes its place.
#[derive(Default)]
pub(super) struct Refreshes {
    last: Mutex<Last>,
}

#[derive(Default)]
struct Last {
    current: Option<Arc<Refresh>>,
    /// When the last one began to ask, or will.
    at: Option<Instant>,
}

pub(super) struct Refresh {
    runtime: Id,
    pub(crate) pulse: Pulse,
    /// How long it is to wait before it asks.
    pub(crate) pause: Option<Duration>,
}

impl Refreshes {
    /// Begins one on this runtime, unless one is under way that gets its turns, or that is this
    /// runtime's own.
    pub(crate) fn begin(&self, runtime: Id) -> Option<Arc<Refresh>> {
        let mut last = self.last();
        if last.current.as_ref().is_some_and(|current| current.runtime == runtime || !current.pulse.is_late()) {
            return None;
        }
        let now = Instant::now();
        let pause =
            last.at.and_then(|at| (at + ASK_EVERY).checked_duration_since(now)).filter(|pause| !pause.is_zero());
        last.at = Some(now + pause.unwrap_or_default());
        let refresh = Arc::new(Refresh { runtime, pulse: Pulse::new(), pause });
        refresh.pulse.due_in(Some(BEAT));
        last.current = Some(Arc::clone(&refresh));
        Some(refresh)
    }

    /// The one under way on the current runtime.
    pub(super) fn of_this_runtime(&self) -> Option<Arc<Refresh>> {
        let runtime = runtime().ok()?.id();
        self.last().current.clone().filter(|current| current.runtime == runtime)
    }

    pub(super) fn is_current(&self, refresh: &Arc<Refresh>) -> bool {
        self.last().current.as_ref().is_some_and(|current| Arc::ptr_eq(current, refresh))
    }

    /// Notes that one is over. Says whether no other had taken its place.
    pub(crate) fn end(&self, refresh: &Arc<Refresh>) -> bool {
        let mut last = self.last();
        let is_current = last.current.as_ref().is_some_and(|current| Arc::ptr_eq(current, refresh));
        if is_current {
            last.current = None;
        }
        is_current
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
