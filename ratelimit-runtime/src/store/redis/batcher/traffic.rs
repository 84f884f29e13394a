//! [`Traffic`]: the callers that wait on a link, and the calls in flight on it. By these a caller
//! either sends by itself, or waits to share a call.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::batch::MAX_QUESTIONS;
use super::queue::Queue;
use crate::store::redis::link::{Connection, Link};

/// While fewer callers than this wait for replies, each sends by itself.
const FEW_CALLERS: usize = 8;
/// [`FEW_CALLERS`] for a server that is [near](Connection::is_near). *Measured*: with 4 in place of
/// 8, 8 callers made 1.0 to 1.2 times as many decisions a second, 4 as many to 1.1 times.
const FEW_CALLERS_NEAR: usize = 4;
/// The most calls in flight.
const MAX_CALLS: usize = 64;

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
    /// `true` if the last call from the queue carried more than a few callers. Their questions
    /// share calls, also their next ones.
    pub(super) is_busy: bool,
}

impl State {
    /// `true` if the next caller sends by itself.
    pub(super) fn is_for_few(&self, connection: &Connection) -> bool {
        let few = if self.is_busy {
            1
        } else {
            few_callers(connection)
        };
        self.queue.is_empty() && self.callers < few
    }

    /// `true` if a call from the queue may be sent. A full call gains nothing by waiting.
    pub(super) fn may_send(&self, connection: &Connection) -> bool {
        self.in_flight < connection.depth()
            || (self.queue.keys() >= MAX_QUESTIONS && self.in_flight < MAX_CALLS)
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

    /// Ends a call for `queued` callers from the queue, or for one that sent by itself.
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

pub(super) fn few_callers(connection: &Connection) -> usize {
    if connection.is_near() {
        FEW_CALLERS_NEAR
    } else {
        FEW_CALLERS
    }
}
