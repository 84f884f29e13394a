//! [`Exchange`]: one open connection. Calls go out in order, and the replies come back in the same
//! order.
//!
//! The connection has a [task](task) that reads, and writes what callers leave to it. A caller that
//! finds the connection idle writes by itself, so that a lone caller waits for nothing but the
//! server. Where a flood of callers keeps the task from running, the callers do its work as they
//! come. Every reply is taken in and checked in order, also when its caller has been
//! cancelled: a reply that cannot belong to its call ends the connection before a later one gets to
//! the wrong caller.
//!
//! Charges of callers that come at the same time share a call. So that they can, the task lets all
//! tasks that are ready to run go first, before it sends what has been gathered.

use std::future::{Future, poll_fn};
use std::sync::{Arc, MutexGuard};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use self::overdue::wake_overdue;
use self::pending::PendingCharge;
use self::state::{Ended, ExchangeState, Gathering, Inner};
use self::task::Task;

use super::abort_on_drop::AbortOnDrop;
use super::queue::Sharing;
use super::queue::deliveries::Deliveries;
use crate::error::StoreError;
use crate::store::redis::batching::charge::KeyCharge;
use crate::store::redis::batching::members::VerdictResult;
use crate::store::redis::wire::commands::{CallError, CallResult, Commands};
use crate::store::redis::wire::stream::Stream;

mod overdue;
pub(crate) mod pending;
pub(super) mod state;
mod task;
mod timeouts;

/// After this long without traffic, the socket is looked at before the connection is used.
const IDLE: Duration = Duration::from_millis(100);

#[derive(Clone)]
pub(crate) struct Exchange {
    shared: Arc<ExchangeState>,
}

impl Exchange {
    /// Starts on a stream on which everything that was sent has been answered. The connection lasts
    /// as long as the future runs, which is its task.
    ///
    /// A second task, which this spawns, wakes callers whose timeout has come. It lasts as long.
    pub(super) fn start(stream: Stream, sharing: Sharing) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let shared = Arc::new(ExchangeState::new(stream, sharing));
        let timeouts = AbortOnDrop::spawn(wake_overdue(Arc::clone(&shared)));
        let task = Task::new(Arc::clone(&shared));
        let run = async move {
            let _timeouts = timeouts;
            poll_fn(|cx| task.poll(cx)).await;
        };
        (Self { shared }, run)
    }

    /// The connection that a charge was queued for.
    pub(crate) fn of(charge: &PendingCharge) -> Self {
        Self { shared: Arc::clone(&charge.shared) }
    }

    /// Queues commands at once, unlike [`charge`](Self::charge), which does so when it is polled.
    /// Dropping the returned future cancels what has not been sent.
    pub(crate) fn send(&self, commands: Commands) -> impl Future<Output = CallResult> + Send + use<> {
        self.queue(commands, true)
    }

    /// Sends commands of the supervisor's own, which are no use of the connection: see
    /// [`Ended::was_used`].
    pub(super) fn send_upkeep(&self, commands: Commands) -> impl Future<Output = CallResult> + Send + use<> {
        self.queue(commands, false)
    }

    fn queue(&self, commands: Commands, is_use: bool) -> impl Future<Output = CallResult> + Send + use<> {
        let (caller, receiver) = oneshot::channel();
        let now = Instant::now();
        let mut inner = self.shared.lock();
        if inner.is_over() {
            let _ = caller.send(Err(CallError::NotSent));
        } else {
            inner.uses += u64::from(is_use);
            let was_idle = inner.is_idle();
            let is_to_be_sent = inner.queue.send(commands, caller, now);
            let is_fresh = now.saturating_duration_since(inner.last_byte_at) < IDLE;
            if !was_idle {
                if is_to_be_sent {
                    inner.wake();
                }
                self.left_to_task(inner, now);
            } else if is_fresh || self.shared.socket.is_quiet() {
                move_up_at_once(inner, now);
            } else {
                drop(inner);
                self.close(closed_by_server(), true);
            }
        }
        async move { receiver.await.unwrap_or(Err(CallError::NotSent)) }
    }

    /// Charges a key. The charge is queued when the future is first polled; dropping that cancels
    /// what has not been sent.
    pub(crate) async fn charge(&self, charge: &KeyCharge<'_>) -> VerdictResult {
        let mut pending = None;
        poll_fn(|cx| match &mut pending {
            None => match self.clone().enter(charge, cx.waker()) {
                Ok(entered) => {
                    pending = Some(entered);
                    Poll::Pending
                }
                Err(why) => Poll::Ready(Err(why)),
            },
            Some(pending) => pending.poll(cx.waker()),
        })
        .await
    }

    /// Queues a charge, whose caller is woken once there is a verdict, and once its timeout has
    /// come.
    pub(crate) fn enter(self, charge: &KeyCharge<'_>, waker: &Waker) -> Result<PendingCharge, CallError> {
        let now = Instant::now();
        let mut inner = self.shared.lock();
        if inner.is_over() {
            return Err(CallError::NotSent);
        }
        let was_idle = inner.is_idle();
        if was_idle && now > inner.last_byte_at + IDLE && !self.shared.socket.is_quiet() {
            drop(inner);
            self.close(closed_by_server(), true);
            return Err(CallError::NotSent);
        }
        inner.uses += 1;
        let member = inner.queue.charge(charge, waker, now)?;
        inner.timeouts.note(charge.timeout_at);
        if was_idle {
            move_up_at_once(inner, now);
        } else {
            self.left_to_task(inner, now);
        }
        Ok(PendingCharge::new(self.shared, member, now))
    }

    /// Lets the task send what a caller has left to it; where that is starved, does its work.
    fn left_to_task(&self, mut inner: MutexGuard<'_, Inner>, now: Instant) {
        if inner.gathering == Gathering::No && inner.queue.has_turn() {
            inner.gathering = Gathering::Wanted;
            inner.wake();
        } else if now > inner.task_due_at {
            // In a flood of callers the runtime may not tell the task that a reply is there.
            inner.wake();
        }
        let is_starved = inner.is_starved(now);
        drop(inner);
        if is_starved {
            self.shared.work();
        }
    }

    /// Sends a `PING` ahead of all that waits.
    pub(crate) fn ping(&self) -> oneshot::Receiver<CallResult> {
        let (caller, receiver) = oneshot::channel();
        let mut inner = self.shared.lock();
        if !inner.ended {
            inner.queue.ping(Some(caller), Instant::now());
            inner.wake();
        }
        receiver
    }

    /// Answers calls with this error from now on, if there is one.
    pub(super) fn set_unready(&self, error: Option<StoreError>) {
        let mut deliveries = Deliveries::default();
        self.shared.lock().queue.set_unready(error, &mut deliveries);
        deliveries.deliver();
    }

    /// How far reading has come. Wakes the task, so that it comes further.
    pub(super) fn read_progress(&self) -> ReadProgress {
        let mut inner = self.shared.lock();
        inner.wake();
        ReadProgress { last_byte_at: inner.last_byte_at, reads: inner.reads }
    }

    /// How often callers have sent something on it; what the supervisor asks does not count.
    pub(super) fn uses(&self) -> u64 {
        self.shared.lock().uses
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Whether it can be used, as far as the system knows.
    pub(crate) fn is_open(&self) -> bool {
        !self.shared.lock().is_over() && self.shared.socket.is_quiet()
    }

    /// Takes nothing more, and hands back what has not been sent. The connection ends by itself
    /// once all that is in flight has been answered.
    pub(super) fn retire(&self) {
        let mut deliveries = Deliveries::default();
        let mut inner = self.shared.lock();
        inner.retired = true;
        inner.queue.hand_back(&mut deliveries);
        inner.wake();
        drop(inner);
        deliveries.deliver();
    }

    /// Ends the connection. `reconnect_now` if another one is likely to succeed at once.
    pub(super) fn close(&self, error: StoreError, reconnect_now: bool) {
        self.shared.close(error, reconnect_now);
    }

    /// Waits for the end.
    pub(super) fn ended(&self) -> impl Future<Output = Ended> + Send + use<> {
        self.shared.ended()
    }
}

/// How far a connection has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReadProgress {
    pub(super) last_byte_at: Instant,
    /// How often everything that had come was read.
    pub(super) reads: u64,
}

/// Sends what waits, on an idle connection.
fn move_up_at_once(mut inner: MutexGuard<'_, Inner>, now: Instant) {
    let mut deliveries = Deliveries::default();
    inner.queue.move_up(now, &mut deliveries);
    inner.write_at_once();
    drop(inner);
    deliveries.deliver();
}

fn closed_by_server() -> StoreError {
    StoreError::unavailable("Redis has closed the connection")
}
