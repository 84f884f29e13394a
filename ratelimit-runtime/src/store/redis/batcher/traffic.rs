//! [`Traffic`]: the callers that wait on a link, and the calls in flight on it. By these a caller
//! either sends by itself, or waits to share a call.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::batch::MAX_QUESTIONS;
use super::queue::Queue;
use super::trial::{SEVERAL, SendTrial};
use crate::store::redis::link::{Connection, Link};

/// The most full calls in flight to a distant server, unless its round trip takes more: it is busy
/// with them for longer than that. More would wait there, before the calls of other processes, and
/// where their callers have given up, for nobody.
const FULL_CALLS: usize = 8;

/// The state that a batcher and its calls share.
pub(super) struct Traffic {
    pub(super) link: Arc<Link>,
    pub(super) runtime: Handle,
    state: Mutex<State>,
    /// Wakes the batcher's task.
    pub(super) wake: Arc<Notify>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) queue: Queue,
    /// The number of calls from the queue that are in flight.
    pub(super) in_flight: usize,
    /// The number of callers that wait for a reply, including those that sent by themselves.
    pub(super) callers: usize,
    /// `true` if there were many callers at the last call from the queue. Their questions share
    /// calls, also their next ones.
    is_busy: bool,
    /// `true` while a call from the queue is about to be sent: none may pass it.
    pub(super) is_sending: bool,
    trial: SendTrial,
}

impl State {
    /// `true` if the next caller sends by itself. Many share calls, which cost both sides more than
    /// a question in them; for a few callers, waiting for others takes longer than sharing saves.
    pub(super) fn is_for_few(&self, connection: &Connection) -> bool {
        let few = match self.is_busy {
            true => 1,
            false if connection.is_near() && !self.trial.by_themselves => *SEVERAL.start() - 1,
            false => *SEVERAL.end() + 1,
        };
        self.queue.is_empty() && !self.is_sending && self.callers < few
    }

    /// Counts a caller that is about to wait.
    pub(super) fn count(&mut self, connection: &Connection) {
        let callers = self.queue.callers() + self.callers + 1;
        if connection.is_near() && self.trial.count(callers, Instant::now) {
            connection.gather(!self.trial.by_themselves);
        }
    }

    /// Judges whether callers are many, and returns how many the next call may carry: half.
    pub(super) fn share(&mut self) -> usize {
        let callers = self.queue.callers() + self.callers;
        self.is_busy = callers > *SEVERAL.end();
        callers.div_ceil(2)
    }

    /// `true` if a call from the queue may be sent. Far from the server, a full call gains nothing
    /// by waiting.
    pub(super) fn may_send(&self, connection: &Connection) -> bool {
        let is_full = self.queue.keys() >= MAX_QUESTIONS && !connection.is_near();
        let most = connection.depth().max(if is_full { FULL_CALLS } else { 0 });
        !self.is_sending && self.in_flight < most
    }
}

impl Traffic {
    pub(super) fn new(link: Arc<Link>, runtime: Handle) -> Self {
        Self {
            link,
            runtime,
            state: Mutex::default(),
            wake: Arc::default(),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the call from the queue is sent.
    pub(super) fn sent(&self) {
        let mut state = self.state();
        state.is_sending = false;
        if !state.queue.is_empty() {
            self.wake.notify_one();
        }
    }

    /// Ends a call for `queued` callers from the queue, or for a caller that sent by itself.
    pub(super) fn answered(&self, queued: Option<usize>) {
        let mut state = self.state();
        state.callers -= queued.unwrap_or(1);
        state.in_flight -= usize::from(queued.is_some());
        if !state.queue.is_empty() {
            self.wake.notify_one();
        }
    }

    /// The number of callers in the queue, and of callers that wait for calls in flight.
    pub(super) fn callers(&self) -> (usize, usize) {
        let state = self.state();
        (state.queue.callers(), state.callers)
    }
}
