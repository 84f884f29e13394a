//! [`Shared`]: the open permits of a client, and the task that leaves and renews without a caller.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::open::{DuePermit, MAX_CARRIED, OpenPermits, member};
use super::{Question, Servers};
use crate::clock::Clock;
use crate::error::StoreError;
use crate::rule::Limit;
use crate::store::PlaceRequest;
use crate::store::redis::scripts::own_time;
use crate::{observe, real_time};

/// Due renewals are sent after this time at the latest, so that renewals of about the same time
/// share calls.
const GATHER: Duration = Duration::from_millis(50);
/// How many calls of the task are on their way at a time. If all are about one key, they keep its
/// server busy for half a millisecond.
const MAX_PENDING: usize = 256;

pub(super) struct Shared {
    pub(super) servers: Arc<Servers>,
    clock: Option<Arc<dyn Clock>>,
    open: Mutex<OpenPermits>,
    /// Wakes the task.
    wake: Notify,
    /// Wakes callers of [`super::Permits::settled`].
    pub(super) settled: Notify,
}

impl Shared {
    pub(super) fn new(servers: Arc<Servers>, clock: Option<Arc<dyn Clock>>) -> Self {
        Self {
            servers,
            clock,
            open: Mutex::default(),
            wake: Notify::new(),
            settled: Notify::new(),
        }
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
    ) -> Result<Arc<Question>, StoreError> {
        leaving.insert(0, member(place));
        let lease = u64::try_from(place.lease.as_micros()).unwrap_or(u64::MAX);
        let now = own_time(self.clock.as_deref())?;
        Ok(Question::of_place(
            operation,
            [place.max.min(Limit::MAX_COUNT), lease],
            &leaving,
            now,
        ))
    }

    /// Wakes the task and waiting callers, if they have something to do at once, and frees the lock.
    /// Permits that leave do; all else is gathered, or leases would be renewed one or two a call.
    pub(super) fn wake(&self, mut open: MutexGuard<'_, OpenPermits>) {
        let is_needed = open.is_asleep && !open.is_empty();
        let is_urgent = open.has_leaving() && open.is_due(Instant::now());
        if is_needed || is_urgent || open.is_closed {
            open.is_asleep = false;
            self.wake.notify_one();
        }
        if !open.has_leaving() {
            self.settled.notify_waiters();
        }
    }

    /// Renews or leaves. It is not given up: it ends with an answer, or with its connection.
    async fn send(self: Arc<Self>, call: DuePermit) {
        let place = &call.place;
        let sent_at = Instant::now();
        let answer = match self.question(
            if call.leaves { "leave" } else { "renew" },
            place,
            Vec::new(),
        ) {
            Ok(question) => self.servers.ask(&[(&*place.key, question)], None).await,
            Err(error) => Err(error.into()),
        };
        let done = answer
            .ok()
            .and_then(|verdicts| Some(verdicts.first()?.allowed));
        let mut open = self.open();
        let is_lost = open.note(&call, done, sent_at, Instant::now());
        // Told when the lock is free again: a recorder is foreign code.
        self.wake(open);
        if is_lost {
            observe::permit_lost(place.rule);
        }
    }

    /// The task of a client: it ends with the runtime, or once the client is gone and all permits
    /// have left.
    pub(super) async fn run(self: Arc<Self>) {
        let (mut epoch, mut calls) = (self.servers.epoch(), JoinSet::new());
        loop {
            while calls.try_join_next().is_some() {}
            let room = MAX_PENDING.saturating_sub(calls.len());
            // Permits that are held back are sent once there is room for a full call.
            if room < MAX_CARRIED {
                calls.join_next().await;
                continue;
            }
            let now = Instant::now();
            let last = std::mem::replace(&mut epoch, self.servers.epoch());
            let (due, is_more, is_asleep) = {
                let mut open = self.open();
                open.is_asleep = open.is_empty();
                if open.is_asleep && open.is_closed {
                    return;
                }
                if epoch != last {
                    open.renew_all(now);
                }
                (open.take_due(now, room), open.is_due(now), open.is_asleep)
            };
            for call in due {
                calls.spawn(Arc::clone(&self).send(call));
            }
            if is_asleep {
                self.wake.notified().await;
                // No permit is of an earlier connection.
                epoch = self.servers.epoch();
            } else if !is_more {
                let _ = real_time::timeout_at(now, now + GATHER, self.wake.notified()).await;
            }
        }
    }
}
