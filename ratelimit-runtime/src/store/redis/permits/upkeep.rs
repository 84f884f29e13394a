//! [`Upkeep`]: what callers and the task of permits share, and the task, which leaves and renews
//! without a caller. It runs while permits are open, and keeps the client for as long; if it ends
//! earlier, its runtime has ended.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::open::{DuePermit, Loss, OpenPermits, member};
use super::{Ask, Question, own_time};
use crate::clock::Clock;
use crate::error::StoreError;
use crate::rule::Limit;
use crate::store::PlaceRequest;
use crate::{observe, real_time};

/// What is due is sent after this time at the latest, so that renewals of about the same time share
/// calls.
const GATHER: Duration = Duration::from_millis(50);

pub(super) struct Upkeep {
    clock: Option<Arc<dyn Clock>>,
    open: Mutex<OpenPermits>,
    /// Wakes the task.
    wake: Notify,
    /// Wakes callers of [`super::Permits::settled`].
    pub(super) settled: Notify,
}

impl Upkeep {
    pub(super) fn new(clock: Option<Arc<dyn Clock>>) -> Self {
        Self { clock, open: Mutex::default(), wake: Notify::new(), settled: Notify::new() }
    }

    pub(super) fn open(&self) -> MutexGuard<'_, OpenPermits> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A question about the place of a permit, which is asked once the members in `leaving` have
    /// left.
    pub(super) fn question(
        &self,
        operation: &str,
        place: &PlaceRequest,
        mut leaving: Vec<String>,
    ) -> Result<Question, StoreError> {
        leaving.insert(0, member(place));
        let lease = u64::try_from(place.lease.as_micros()).unwrap_or(u64::MAX);
        let now = own_time(self.clock.as_deref())?;
        Ok(Question::of_place(operation, place.max.min(Limit::MAX_COUNT), lease, &leaving, now))
    }

    /// Wakes the task and those who wait, if they have something to do at once, and frees the lock.
    /// A task that was woken by each reply would renew by calls of one or two.
    #[allow(clippy::needless_pass_by_value, reason = "it ends here")]
    pub(super) fn wake(&self, open: MutexGuard<'_, OpenPermits>) {
        if open.is_empty() || open.is_urgent(Instant::now()) {
            self.wake.notify_one();
        }
        if !open.has_leaving() {
            self.settled.notify_waiters();
        }
    }

    /// Renews or leaves. It is not given up: it ends with an answer, or with its connection.
    async fn send<A: Ask>(self: Arc<Self>, asks: Arc<A>, call: DuePermit) {
        let place = &call.place;
        let sent_at = Instant::now();
        let answer = match self.question(if call.leaves { "leave" } else { "renew" }, place, Vec::new()) {
            Ok(question) => asks.ask(&[(&*place.key, question)], None).await,
            Err(error) => Err(error),
        };
        let done = answer.ok().and_then(|verdicts| Some(verdicts.first()?.allowed));
        let mut open = self.open();
        let loss = open.note(&call, done, sent_at, Instant::now());
        // Told when the lock is free again: a recorder is foreign code.
        self.wake(open);
        match loss {
            Some(Loss::Permit) => observe::permit_lost(place.rule),
            Some(Loss::Leaving) => observe::log::place_not_left(place.rule),
            None => {}
        }
    }
}

pub(super) struct Task {
    upkeep: Arc<Upkeep>,
    /// Whether it ended by itself: what is open from then on is another task's.
    has_ended: bool,
}

impl Task {
    pub(super) fn new(upkeep: Arc<Upkeep>) -> Self {
        Self { upkeep, has_ended: false }
    }

    pub(super) async fn run<A: Ask>(mut self, asks: Arc<A>) {
        let mut epoch = asks.epoch();
        loop {
            let now = Instant::now();
            let last = std::mem::replace(&mut epoch, asks.epoch());
            let due = {
                let mut open = self.upkeep.open();
                if open.is_empty() {
                    open.is_tended = false;
                    self.has_ended = true;
                    return;
                }
                if epoch != last {
                    open.renew_all(now);
                }
                open.take_due(now)
            };
            for call in due {
                tokio::spawn(Arc::clone(&self.upkeep).send(Arc::clone(&asks), call));
            }
            let _ = real_time::timeout_at(now + GATHER, self.upkeep.wake.notified()).await;
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if !self.has_ended {
            let mut open = self.upkeep.open();
            let rules = open.forget_all();
            self.upkeep.wake(open);
            rules.into_iter().for_each(observe::log::place_not_left);
        }
    }
}
