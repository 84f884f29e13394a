//! [`State`]: what callers and the task of permits share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;

use super::open::{OpenPermits, member};
use crate::clock::Clock;
use crate::rule::Limit;
use crate::store::PlaceRequest;
use crate::store::redis::scripts::Question;

pub(super) struct State {
    pub(super) clock: Option<Arc<dyn Clock>>,
    open: Mutex<OpenPermits>,
    /// Wakes the task.
    pub(super) wake: Notify,
    /// Wakes callers of [`super::Permits::settled`].
    pub(super) settled: Notify,
}

impl State {
    pub(super) fn new(clock: Option<Arc<dyn Clock>>) -> Self {
        let open = Mutex::new(OpenPermits::new(Instant::now()));
        Self { clock, open, wake: Notify::new(), settled: Notify::new() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, OpenPermits> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the task and those who wait, if they have something to do, and frees the lock.
    #[allow(clippy::needless_pass_by_value, reason = "it ends here")]
    pub(super) fn wake(&self, open: MutexGuard<'_, OpenPermits>) {
        if open.has_work(Instant::now()) {
            self.wake.notify_one();
        }
        if !open.has_leaving() {
            self.settled.notify_waiters();
        }
    }
}

/// A question about the place of a permit, which is asked once the members in `leaving` have left.
pub(super) fn question(
    operation: &str,
    place: &PlaceRequest<'_>,
    mut leaving: Vec<String>,
    now: Option<u64>,
) -> Question {
    leaving.insert(0, member(place));
    let lease = u64::try_from(place.lease().as_micros()).unwrap_or(u64::MAX);
    Question::of_place(operation, place.max().min(Limit::MAX_COUNT), lease, &leaving, now)
}
