//! [`PermitState`]: what a store knows of its permits; and [`Sending`], what is sent of them without a
//! caller.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use redis::Value;

use super::open_permits::{OpenPermits, Upkeep, UpkeepResult};
use crate::clock::Clock;
use crate::observe;
use crate::store::redis::scripts::group::{Group, GroupScript};
use crate::store::redis::scripts::place::{self, PlaceOutcome};
use crate::store::redis::scripts::protocol;
use crate::store::redis::topology::SharedConnections;
use crate::store::redis::wire::slot::Slot;

/// What a store knows of its permits, and where their keys are.
pub(super) struct PermitState {
    pub(super) connections: SharedConnections,
    pub(super) clock: Option<Arc<dyn Clock>>,
    open: Mutex<OpenPermits<Arc<Self>>>,
}

impl PermitState {
    pub(super) fn new(connections: SharedConnections, clock: Option<Arc<dyn Clock>>) -> Self {
        Self { connections, clock, open: Mutex::new(OpenPermits::new(Instant::now())) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, OpenPermits<Arc<Self>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is on its way without a caller. When this is dropped, permits whose outcome is not known
/// are due again.
pub(super) struct Sending {
    permits: Arc<PermitState>,
    batch: Vec<Upkeep>,
    outcomes: Vec<PlaceOutcome>,
    sent_at: Instant,
}

impl Sending {
    pub(super) fn new(permits: &Arc<PermitState>, batch: Vec<Upkeep>) -> Self {
        Self { permits: Arc::clone(permits), batch, outcomes: Vec::new(), sent_at: Instant::now() }
    }

    /// Sends it to the server of a slot.
    pub(super) async fn run(mut self, slot: Slot) {
        self.outcomes = self.ask(slot).await.unwrap_or_default();
    }

    async fn ask(&self, slot: Slot) -> Option<Vec<PlaceOutcome>> {
        let PermitState { connections, clock, .. } = &*self.permits;
        let now = protocol::own_time(clock.as_deref()).ok()?;
        let questions = self.batch.iter().map(|upkeep| (upkeep.place.as_request().key(), upkeep.question.clone()));
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
            match open.note_outcome(upkeep, outcome, self.sent_at, now) {
                UpkeepResult::Well => {}
                UpkeepResult::Lost(rule) => lost.push(rule),
                UpkeepResult::NotLeft(rule) => kept.push(rule),
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
