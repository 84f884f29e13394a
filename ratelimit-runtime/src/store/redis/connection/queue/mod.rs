//! [`InFlightQueue`]: the queue of one connection: commands, batches of charges and groups that are
//! in flight, in order, and those that wait until the limit lets them go.
//!
//! Nothing here is sent or received: [`sending`] fills a buffer, and [`receiving`] is handed the
//! replies. A caller that is cancelled while it waits has sent nothing.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::Instant;

use redis::ServerError;
use tokio::sync::oneshot;

use self::deliveries::Deliveries;
use self::groups::{GroupBatch, Groups};
use self::replies::Replies;
use crate::error::StoreError;
pub(crate) use crate::store::redis::batching::Sharing;
use crate::store::redis::batching::batch::{self, Batch};
use crate::store::redis::batching::batches::Batches;
use crate::store::redis::batching::charge::KeyCharge;
use crate::store::redis::batching::in_flight_limit::InFlightLimit;
use crate::store::redis::batching::members::VerdictResult;
use crate::store::redis::wire::commands::{CallError, CallResult, Commands};

pub(super) mod deliveries;
mod groups;
mod receiving;
pub(crate) mod replies;
mod sending;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

#[derive(Debug)]
pub(super) struct InFlightQueue {
    waiting: VecDeque<Waiting>,
    batches: Batches,
    groups: Groups,
    in_flight: VecDeque<InFlight>,
    /// Replies that wait for a later one that has a number.
    unproven: Vec<Unproven>,
    /// How many commands, charges and questions of groups are in flight; of the charges and groups,
    /// in how many batches, and of the charges, in how many sections.
    callers_in_flight: usize,
    batches_in_flight: usize,
    sections_in_flight: usize,
    /// How many sections make a batch that does not wait for more.
    full: usize,
    /// What is to be sent next.
    pub(super) outgoing: Vec<u8>,
    /// How many bytes the system has taken.
    sent: u64,
    limit: InFlightLimit,
    /// Why nothing is sent, if the server does not serve.
    unready: Option<StoreError>,
}

#[derive(Debug)]
struct Waiting {
    commands: Commands,
    caller: oneshot::Sender<CallResult>,
}

/// A call that is in the buffer, on its way to the server, or on its way back.
#[derive(Debug)]
struct InFlight {
    call: InFlightCall,
    /// Its place in the stream of all bytes sent.
    starts_at: u64,
    since: Instant,
}

#[derive(Debug)]
enum InFlightCall {
    Commands(PendingCommands),
    Batch(Batch),
    Groups(GroupBatch),
    /// A `PING`, whose reply a caller may wait for.
    Marker(Option<oneshot::Sender<CallResult>>, Replies),
}

#[derive(Debug)]
struct PendingCommands {
    caller: oneshot::Sender<CallResult>,
    replies: Replies,
}

/// What has been answered without a number.
#[derive(Debug)]
enum Unproven {
    Commands(PendingCommands),
    Batch(Batch, ServerError),
    Groups(GroupBatch, ServerError),
}

impl InFlightQueue {
    pub(super) fn new(sharing: Sharing) -> Self {
        Self {
            waiting: VecDeque::new(),
            batches: Batches::new(sharing != Sharing::None),
            groups: Groups::new(sharing),
            in_flight: VecDeque::new(),
            unproven: Vec::new(),
            callers_in_flight: 0,
            batches_in_flight: 0,
            sections_in_flight: 0,
            full: if sharing == Sharing::All { batch::MAX_SECTIONS } else { 1 },
            outgoing: Vec::new(),
            sent: 0,
            limit: InFlightLimit::new(),
            unready: None,
        }
    }

    /// Whether nothing is in flight, nor waits.
    ///
    /// What is unproven need not be looked at: a later reply or a marker, which is to prove it, is
    /// in flight. A key that is ready waits for a reply too, or for the task, which was woken.
    pub(super) fn is_idle(&self) -> bool {
        debug_assert!(self.unproven.is_empty() || !self.in_flight.is_empty(), "what is unproven would stay so");
        self.in_flight.is_empty() && self.waiting.is_empty() && self.batches.is_empty() && self.groups.is_empty()
    }

    /// Takes commands in; says whether there is something to be sent. A group waits for
    /// [`move_up`](Self::move_up).
    pub(super) fn send(&mut self, commands: Commands, caller: oneshot::Sender<CallResult>, now: Instant) -> bool {
        if let Some(error) = &self.unready {
            let _ = caller.send(Err(CallError::Unready(error.clone())));
            return false;
        }
        self.limit.note_timeout(commands.timeout_at, now);
        if let Some(group) = commands.group {
            self.groups.enter(group, commands.timeout_at, caller);
            return false;
        }
        if self.waiting.is_empty() && self.limit.admits(self.callers_in_flight) {
            self.write_commands(commands, caller, now);
            return true;
        }
        self.limit.note_full();
        self.waiting.push_back(Waiting { commands, caller });
        false
    }

    /// Takes a charge in, which waits for [`move_up`](Self::move_up). Gives the member that it is.
    pub(super) fn charge(&mut self, charge: &KeyCharge<'_>, waker: &Waker, now: Instant) -> Result<usize, CallError> {
        if let Some(error) = &self.unready {
            return Err(CallError::Unready(error.clone()));
        }
        self.limit.note_timeout(charge.timeout_at, now);
        Ok(self.batches.enter(charge, waker))
    }

    /// The verdict on a member; see [`Batches::poll`].
    pub(super) fn poll(&mut self, member: usize, waker: &Waker) -> Result<VerdictResult, Option<Waker>> {
        self.batches.poll(member, waker)
    }

    /// Hands out wakers of members whose timeout has come, each once. Gives the time to look again.
    pub(super) fn take_overdue(&mut self, now: Instant, wakers: &mut Vec<Waker>) -> Option<Instant> {
        self.batches.take_overdue(now, wakers)
    }

    /// Cancels a member. The waker is to be dropped outside of a lock.
    pub(super) fn cancel(&mut self, member: usize) -> Option<Waker> {
        self.batches.cancel(member)
    }

    /// Lets nothing more be sent, if there is an error to answer instead. What waits is answered
    /// with it.
    pub(super) fn set_unready(&mut self, error: Option<StoreError>, deliveries: &mut Deliveries) {
        if let Some(error) = &error {
            self.fail_waiting(|| CallError::Unready(error.clone()), deliveries);
        }
        self.unready = error;
    }

    /// Lets callers that wait send on another connection.
    pub(super) fn hand_back(&mut self, deliveries: &mut Deliveries) {
        self.fail_waiting(|| CallError::NotSent, deliveries);
    }

    fn fail_waiting(&mut self, why: impl Fn() -> CallError, deliveries: &mut Deliveries) {
        for waiting in self.waiting.drain(..) {
            deliveries.fail(waiting.caller, why());
        }
        self.groups.fail_waiting(&why, deliveries);
        self.batches.fail_waiting(why, &mut deliveries.wakers);
    }

    /// Ends the queue: nothing will be sent or received any more.
    pub(super) fn close(&mut self, error: &StoreError, deliveries: &mut Deliveries) {
        let lost = || CallError::Lost(error.clone());
        for unproven in self.unproven.drain(..) {
            match unproven {
                Unproven::Commands(commands) => deliveries.fail(commands.caller, lost()),
                Unproven::Batch(batch, _) => self.batches.fail(batch, lost, &mut deliveries.wakers),
                Unproven::Groups(batch, _) => self.groups.end(batch, || Err(lost()), deliveries),
            }
        }
        for InFlight { call, starts_at, .. } in self.in_flight.drain(..) {
            let was_sent = starts_at < self.sent;
            let why = || if was_sent { lost() } else { CallError::NotSent };
            match call {
                InFlightCall::Commands(PendingCommands { caller, .. }) | InFlightCall::Marker(Some(caller), _) => {
                    deliveries.fail(caller, why());
                }
                InFlightCall::Marker(None, _) => {}
                InFlightCall::Batch(batch) => self.batches.fail(batch, why, &mut deliveries.wakers),
                InFlightCall::Groups(batch) => self.groups.end(batch, || Err(why()), deliveries),
            }
        }
        self.hand_back(deliveries);
        self.outgoing = Vec::new();
        (self.callers_in_flight, self.batches_in_flight, self.sections_in_flight) = (0, 0, 0);
    }
}

#[cfg(test)]
impl InFlightQueue {
    fn waits(&self, member: usize) -> bool {
        self.batches.waits(member)
    }

    fn members(&self) -> usize {
        self.batches.members()
    }

    fn assert_consistent(&self) {
        self.batches.assert_consistent();
    }
}
