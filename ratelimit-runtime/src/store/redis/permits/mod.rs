//! [`Permits`]: the permits that calls in flight of this process have: how they take their places,
//! keep them and leave them.
//!
//! A process knows each of its permits from before it asks for the place until the server has
//! confirmed that it is left: so a place is left by id whatever became of the answer, and no place
//! is kept that is not known. What is to be sent without a caller, leaving and renewing, is sent by
//! an [`upkeep`] task on the runtime on which the permit entered, because only there it goes the
//! same way as the call that entered, and behind it. Where that runtime has ended or is not driven,
//! the task of another one takes over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use redis::Value;

use self::open_permits::EnterOutcome;
use self::sending::PermitState;
use super::errors::{self, unexpected_reply};
use super::scripts::group::{Group, GroupScript};
use super::scripts::place::{self, PermitMember, PlaceOperation, PlaceOutcome, PlaceRecord};
use super::scripts::protocol::{self, Question};
use super::topology::SharedConnections;
use crate::clock::Clock;
use crate::error::{StoreError, StoreErrorKind};
use crate::observe;
use crate::store::{Entry, PermitId, PlaceRequest, Verdict};

mod open_permits;
mod sending;
#[cfg(test)]
mod tests;
mod upkeep;

pub(super) struct Permits {
    state: Arc<PermitState>,
}

impl Permits {
    pub(super) fn new(connections: SharedConnections, clock: Option<Arc<dyn Clock>>) -> Self {
        Self { state: Arc::new(PermitState::new(connections, clock)) }
    }

    /// Takes a place, and charges what these questions ask, all or none. It is the caller's time in
    /// microseconds, or `None` for the server's.
    pub(super) async fn enter(
        &self,
        place: PlaceRequest<'_>,
        script: GroupScript,
        limits: Vec<(&[u8], Question)>,
        now: Option<u64>,
    ) -> Result<Entry, StoreError> {
        let mut entering = self.begin(&place)?;
        let question = place::question(PlaceOperation::Enter, &place, &entering.leaving);
        let questions = [(place.key(), question)].into_iter().chain(limits);
        let group = Group::new(script, now, questions).noting(&entering.is_written);
        let calls = self.state.connections.calls(self.state.connections.slot(place.key()), place.timeout_at());
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
        let now = protocol::own_time(self.state.clock.as_deref())?;
        // What this process is leaving may come by another connection, and later.
        let leaving = self.state.lock().leaving(place.key());
        let question = place::question(PlaceOperation::Look, &place, &leaving);
        let group = Group::new(GroupScript::Places, now, [(place.key(), question)].into_iter());
        let calls = self.state.connections.calls(self.state.connections.slot(place.key()), place.timeout_at());
        let reply = calls.ask_group(&group).await?.map_err(|error| errors::from_server(&error))?;
        let record = entry_in(&reply).filter(|(_, verdicts)| verdicts.is_empty());
        record.map(|(record, _)| record.in_flight).ok_or_else(unexpected_reply)
    }

    /// Leaves the place of a permit, if this process has it. Sends nothing by itself.
    pub(super) fn leave(&self, permit: PermitId) {
        let unattended = {
            let mut open = self.state.lock();
            let unattended = open.leave(permit, upkeep::runtime());
            open.wake(&self.state);
            unattended
        };
        if let Some(rule) = unattended {
            observe::place_not_left(rule);
        }
    }

    fn begin(&self, place: &PlaceRequest<'_>) -> Result<Entering, StoreError> {
        let runtime = upkeep::current(&self.state)?;
        let mut open = self.state.lock();
        if let Some(replaced) = place.replaces() {
            open.leave(replaced, Some(runtime));
        }
        let (carried, leaving) = open.begin(place, runtime);
        drop(open);
        let (permits, permit) = (Arc::clone(&self.state), place.permit());
        let (is_written, sent_at) = (Arc::default(), Instant::now());
        Ok(Entering { permits, permit, sent_at, is_written, is_refused: false, is_over: false, carried, leaving })
    }
}

/// What is answered about a place, and about the limits beside it.
fn entry_in(reply: &Value) -> Option<(PlaceRecord, Vec<Verdict>)> {
    let Value::BulkString(reply) = reply else { return None };
    let (record, mut rest) = place::place_record(reply)?;
    let mut verdicts = Vec::new();
    while !rest.is_empty() {
        let (record, following) = protocol::record(rest)?;
        verdicts.push(record.verdict());
        rest = following;
    }
    Some((record, verdicts))
}

/// A call that asks for a place. However it ends, also when it is dropped, its permit is open, or
/// leaves if the call may have been carried out, or is forgotten.
struct Entering {
    permits: Arc<PermitState>,
    permit: PermitId,
    sent_at: Instant,
    is_written: Arc<AtomicBool>,
    /// The server has said that it did nothing.
    is_refused: bool,
    is_over: bool,
    /// The permits whose leaving this call alone confirms.
    carried: Vec<PermitId>,
    /// All that leave with it.
    leaving: Vec<PermitMember>,
}

impl Entering {
    /// The server has answered.
    fn end(mut self, has_entered: bool) {
        self.is_over = true;
        let ended = if has_entered { EnterOutcome::Entered(self.sent_at) } else { EnterOutcome::Refused };
        self.permits.lock().end(self.permit, &self.carried, ended);
    }
}

impl Drop for Entering {
    fn drop(&mut self) {
        if !self.is_over {
            let is_unknown = self.is_written.load(Ordering::Acquire) && !self.is_refused;
            let ended = if is_unknown { EnterOutcome::Unknown } else { EnterOutcome::NotAsked };
            self.permits.lock().end(self.permit, &self.carried, ended);
        }
        self.permits.lock().wake(&self.permits);
    }
}
