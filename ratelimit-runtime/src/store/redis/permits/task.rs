//! [`PermitsState`]: the open permits of a client, and the task that renews and releases them
//! without a caller.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::timeout;

use super::open::{DuePermit, OpenPermits, member};
use super::{Question, Servers};
use crate::clock::Clock;
use crate::error::StoreError;
use crate::observe;
use crate::rule::Limit;
use crate::store::PermitRequest;
use crate::store::redis::scripts::own_time;

/// The time within which due renewals are sent, so that renewals of about one time share calls.
const GATHER: Duration = Duration::from_millis(50);

pub(super) struct PermitsState {
    pub(super) servers: Arc<Servers>,
    clock: Option<Arc<dyn Clock>>,
    open: Mutex<OpenPermits>,
    /// Wakes the task.
    wake: Notify,
    /// Wakes callers of [`super::Permits::settled`].
    pub(super) settled: Notify,
}

impl PermitsState {
    pub(super) fn new(servers: Arc<Servers>, clock: Option<Arc<dyn Clock>>) -> Self {
        Self {
            open: Mutex::new(OpenPermits::new(Arc::clone(&servers))),
            servers,
            clock,
            wake: Notify::new(),
            settled: Notify::new(),
        }
    }

    pub(super) fn open(&self) -> MutexGuard<'_, OpenPermits> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A question about a permit, which is asked once the members in `releases` are released.
    pub(super) fn question(
        &self,
        operation: &str,
        request: &PermitRequest,
        mut releases: Vec<String>,
    ) -> Result<Arc<Question>, StoreError> {
        releases.insert(0, member(request));
        let lease = u64::try_from(request.lease.as_micros()).unwrap_or(u64::MAX);
        let now = own_time(self.clock.as_deref())?;
        Ok(Question::of_permit(
            operation,
            [request.max.min(Limit::MAX_COUNT), lease],
            &releases,
            now,
        ))
    }

    /// Wakes the task and waiting callers if there is work, and frees the lock. Releases, and
    /// permits that a server had no room for, are work at once. Renewals are gathered, so that
    /// calls are shared.
    pub(super) fn wake(&self, mut open: MutexGuard<'_, OpenPermits>) {
        let is_needed = open.is_asleep && !open.is_empty();
        if is_needed || open.is_closed || open.is_urgent(Instant::now()) {
            open.is_asleep = false;
            self.wake.notify_one();
        }
        if !open.has_releases() {
            self.settled.notify_waiters();
        }
    }

    /// The task of a client. It ends with the runtime, or once the client and all permits are gone.
    pub(super) async fn run(self: Arc<Self>) {
        let mut epoch = self.servers.epochs.all();
        loop {
            let now = Instant::now();
            let last = std::mem::replace(&mut epoch, self.servers.epochs.all());
            let (due, is_asleep) = {
                let mut open = self.open();
                open.is_asleep = open.is_empty();
                if open.is_asleep && open.is_closed {
                    return;
                }
                if epoch != last {
                    open.renew_lost(now);
                }
                (open.take_due(now), open.is_asleep)
            };
            for call in due {
                let pending = PendingCall {
                    shared: Arc::clone(&self),
                    call,
                    sent_at: Instant::now(),
                    done: None,
                };
                tokio::spawn(pending.send());
            }
            if is_asleep {
                self.wake.notified().await;
                // No permit is of an earlier connection.
                epoch = self.servers.epochs.all();
            } else {
                let _ = timeout(GATHER, self.wake.notified()).await;
            }
        }
    }
}

/// A call that renews or releases one of the open permits.
struct PendingCall {
    shared: Arc<PermitsState>,
    call: DuePermit,
    sent_at: Instant,
    /// The reply: whether the permit was released or renewed.
    done: Option<bool>,
}

impl PendingCall {
    /// Sends the call. It has no timeout: it ends with an answer, or with its connection.
    async fn send(mut self) {
        let operation = if self.call.is_release {
            "release_permit"
        } else {
            "renew"
        };
        let request = &self.call.request;
        let Ok(question) = self.shared.question(operation, request, Vec::new()) else {
            return;
        };
        let answer = self.shared.servers.ask(&request.key, question, None).await;
        self.done = answer.ok().map(|reply| reply.is_done());
    }
}

impl Drop for PendingCall {
    /// Records how the call ended, even if the application's clock panicked: a permit that is not
    /// renewed is lost, and a call that counts as pending holds others back.
    fn drop(&mut self) {
        let mut open = self.shared.open();
        let is_lost = open.note(&self.call, self.done, self.sent_at, Instant::now());
        // Told when the lock is free again: a recorder is foreign code.
        self.shared.wake(open);
        if is_lost {
            observe::permit_lost(self.call.request.rule);
        }
    }
}
