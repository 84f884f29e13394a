//! [`Permits`]: the permits that calls in flight of this process have: how they take their places,
//! keep them and leave them.
//!
//! A process knows each of its permits from before it asks for the place until the server has
//! confirmed that it is left: so a place is left by id whatever became of the answer, and no place
//! is kept that is not known. What is to be sent without a caller, leaving and renewing, is sent by
//! an [`upkeep`] task on the runtime on which the permit entered, because only there it goes the
//! same way as the call that entered, and behind it. Where that runtime has ended or is not driven,
//! the task of another one takes over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use redis::Value;

use self::open_permits::{Ended, OpenPermits, Upkeep};
use super::errors::{self, unexpected_reply};
use super::scripts::group::{Group, GroupScript};
use super::scripts::place::{self, Member, PlaceOperation, PlaceOutcome, PlaceRecord};
use super::scripts::protocol::{self, Question};
use super::topology::SharedConnections;
use super::wire::slot::Slot;
use crate::clock::Clock;
use crate::error::{StoreError, StoreErrorKind};
use crate::observe;
use crate::store::{Entry, PermitId, PlaceRequest, Verdict};

mod open_permits;
mod upkeep;

pub(super) struct Permits {
    connections: SharedConnections,
    clock: Option<Arc<dyn Clock>>,
    open: Mutex<OpenPermits>,
}

impl Permits {
    pub(super) fn new(connections: SharedConnections, clock: Option<Arc<dyn Clock>>) -> Arc<Self> {
        Arc::new(Self { connections, clock, open: Mutex::new(OpenPermits::new(Instant::now())) })
    }

    /// Takes a place, and charges what these questions ask, all or none.
    pub(super) async fn enter(
        self: &Arc<Self>,
        place: PlaceRequest<'_>,
        limits: Vec<(&[u8], Question)>,
    ) -> Result<Entry, StoreError> {
        let now = protocol::own_time(self.clock.as_deref())?;
        let script = if limits.is_empty() { GroupScript::Places } else { GroupScript::PlaceAndLimits };
        let mut entering = self.begin(&place)?;
        let question = place::question(PlaceOperation::Enter, &place, &entering.leaving);
        let questions = [(place.key(), question)].into_iter().chain(limits);
        let group = Group::new(script, now, questions).noting(&entering.is_written);
        let calls = self.connections.calls(self.connections.slot(place.key()), place.timeout_at());
        let reply = match calls.ask_group(&group).await? {
            Ok(reply) => reply,
            Err(error) => {
                let error = errors::from_server(&error);
                entering.is_refused = matches!(error.kind(), StoreErrorKind::Full | StoreErrorKind::Unavailable);
                return Err(error);
            }
        };
        let Some((record, verdicts)) = entry_in(&reply) else {
            let error = unexpected_reply();
            calls.end(&error);
            return Err(error);
        };
        let in_flight = record.in_flight;
        let entry = match record.outcome {
            PlaceOutcome::Refused => Entry::full(in_flight, verdicts),
            PlaceOutcome::Done | PlaceOutcome::EnteredAgain => Entry::free(in_flight, verdicts),
            PlaceOutcome::Failed => return Err(unexpected_reply()),
        };
        entering.end(entry.is_entered());
        Ok(entry)
    }

    /// How many calls of the key are in flight.
    pub(super) async fn in_flight(&self, place: PlaceRequest<'_>) -> Result<u64, StoreError> {
        let now = protocol::own_time(self.clock.as_deref())?;
        let question = place::question(PlaceOperation::Look, &place, &[]);
        let group = Group::new(GroupScript::Places, now, [(place.key(), question)].into_iter());
        let calls = self.connections.calls(self.connections.slot(place.key()), place.timeout_at());
        let reply = calls.ask_group(&group).await?.map_err(|error| errors::from_server(&error))?;
        let record = entry_in(&reply).filter(|(_, verdicts)| verdicts.is_empty());
        record.map(|(record, _)| record.in_flight).ok_or_else(unexpected_reply)
    }

    /// Leaves the place of a permit, if this process has it. Sends nothing by itself.
    pub(super) fn leave(self: &Arc<Self>, permit: PermitId) {
        let unattended = {
            let mut open = self.lock();
            let unattended = open.leave(permit, upkeep::runtime());
            open.wake(self);
            unattended
        };
        if let Some(rule) = unattended {
            observe::place_not_left(rule);
        }
    }

    fn begin(self: &Arc<Self>, place: &PlaceRequest<'_>) -> Result<Entering, StoreError> {
        let runtime = upkeep::current(self)?;
        let mut open = self.lock();
        if let Some(replaced) = place.replaces() {
            open.leave(replaced, Some(runtime));
        }
        let (carried, leaving) = open.begin(place, runtime);
        drop(open);
        let (permits, permit) = (Arc::clone(self), place.permit());
        let (is_written, sent_at) = (Arc::default(), Instant::now());
        Ok(Entering { permits, permit, sent_at, is_written, is_refused: false, is_over: false, carried, leaving })
    }

    fn lock(&self) -> MutexGuard<'_, OpenPermits> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is answered about a place, and about the limits beside it.
fn entry_in(reply: &Value) -> Option<(PlaceRecord, Vec<Verdict>)> {
    let Value::BulkString(reply) = reply else { return None };
    let (record, mut rest) = place::place_record(reply)?;
    let mut verdicts = Vec::new();
    while !rest.is_empty() {
        let (record, following) = protocol::record(rest)?;
        verdicts.push(record.verdict);
        rest = following;
    }
    Some((record, verdicts))
}

/// A call that asks for a place. However it ends, also when it is dropped, its permit is open, or
/// leaves if the call may have been carried out, or is forgotten.
struct Entering {
    permits: Arc<Permits>,
    permit: PermitId,
    sent_at: Instant,
    is_written: Arc<AtomicBool>,
    /// The server has said that it did nothing.
    is_refused: bool,
    is_over: bool,
    /// The permits whose leaving this call alone confirms.
    carried: Vec<PermitId>,
    /// All that leave with it.
    leaving: Vec<Member>,
}

impl Entering {
    /// The server has answered.
    fn end(mut self, has_entered: bool) {
        self.is_over = true;
        let ended = if has_entered { Ended::Entered(self.sent_at) } else { Ended::Refused };
        self.permits.lock().end(self.permit, &self.carried, ended);
    }
}

impl Drop for Entering {
    fn drop(&mut self) {
        if !self.is_over {
            let is_unknown = self.is_written.load(Ordering::Acquire) && !self.is_refused;
            let ended = if is_unknown { Ended::Unknown } else { Ended::NotAsked };
            self.permits.lock().end(self.permit, &self.carried, ended);
        }
        self.permits.lock().wake(&self.permits);
    }
}

/// What is on its way without a caller. When this is dropped, permits whose outcome is not known
/// are due again.
struct Sending {
    permits: Arc<Permits>,
    batch: Vec<Upkeep>,
    outcomes: Vec<PlaceOutcome>,
    sent_at: Instant,
}

impl Sending {
    fn new(permits: &Arc<Permits>, batch: Vec<Upkeep>) -> Self {
        Self { permits: Arc::clone(permits), batch, outcomes: Vec::new(), sent_at: Instant::now() }
    }

    /// Sends it to the server of a slot.
    async fn run(mut self, slot: Slot) {
        self.outcomes = self.ask(slot).await.unwrap_or_default();
    }

    async fn ask(&self, slot: Slot) -> Option<Vec<PlaceOutcome>> {
        let Permits { connections, clock, .. } = &*self.permits;
        let now = protocol::own_time(clock.as_deref()).ok()?;
        let questions = self.batch.iter().map(|upkeep| (&*upkeep.key, upkeep.question.clone()));
        let group = Group::new(GroupScript::Places, now, questions).ahead();
        let calls = connections.calls(slot, None);
        let Ok(Value::BulkString(reply)) = calls.ask_group(&group).await.ok()? else { return None };
        let (mut outcomes, mut rest) = (Vec::with_capacity(self.batch.len()), reply.as_slice());
        while let Some((record, following)) = place::place_record(rest) {
            outcomes.push(record.outcome);
            rest = following;
        }
        (outcomes.len() == self.batch.len() && rest.is_empty()).then_some(outcomes)
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        let (mut lost, mut kept) = (Vec::new(), Vec::new());
        let mut open = self.permits.lock();
        let now = Instant::now();
        for (index, upkeep) in self.batch.iter().enumerate() {
            let outcome = self.outcomes.get(index).copied().unwrap_or(PlaceOutcome::Failed);
            match open.settle(upkeep, outcome, self.sent_at, now) {
                open_permits::Settled::Well => {}
                open_permits::Settled::Lost(rule) => lost.push(rule),
                open_permits::Settled::NotLeft(rule) => kept.push(rule),
            }
        }
        open.note_sent(self.batch.first().map(|upkeep| upkeep.runtime));
        open.wake(&self.permits);
        drop(open);
        // Told when the lock is free again: a recorder is foreign code.
        lost.into_iter().for_each(observe::permit_lost);
        kept.into_iter().for_each(observe::place_not_left);
    }
}
