//! What becomes of a reply.
//!
//! A reply is trusted for the number in it. An error has none: it is trusted once a later reply
//! with the right number has proved that nothing was doubled, lost or swapped before it. Where no
//! such reply is due, or the next one is an error too, a marker is sent for that.

use std::time::Instant;

use redis::{ServerError, Value};

use super::deliveries::Deliveries;
use super::replies::OutOfStep;
use super::{InFlight, InFlightCall, InFlightQueue, PendingCommands, Unproven};
use crate::store::redis::batching::batch;
use crate::store::redis::wire::commands::{CallError, Reply};

impl InFlightQueue {
    /// Takes in the next reply; says how many callers it answers.
    pub(crate) fn reply(
        &mut self,
        reply: Reply<'_>,
        now: Instant,
        deliveries: &mut Deliveries,
    ) -> Result<usize, OutOfStep> {
        let InFlight { call, .. } = self.in_flight.front_mut().ok_or(OutOfStep)?;
        let records = match call {
            InFlightCall::Batch(_) | InFlightCall::Groups(_) => match &reply {
                Reply::Bulk(bytes) => Some(
                    match call {
                        InFlightCall::Batch(batch) => self.batches.records(batch, bytes),
                        InFlightCall::Groups(batch) => batch.records(bytes),
                        _ => None,
                    }
                    .ok_or(OutOfStep)?,
                ),
                Reply::Other(Value::ServerError(_)) => None,
                Reply::Other(_) => return Err(OutOfStep),
            },
            InFlightCall::Commands(PendingCommands { replies, .. }) | InFlightCall::Marker(_, replies) => {
                replies.take(reply.into())?;
                if !replies.are_whole() {
                    return Ok(0);
                }
                return Ok(self.take_out(now, None, deliveries));
            }
        };
        Ok(match (records, reply) {
            (None, Reply::Other(Value::ServerError(error))) => self.take_out(now, Some(Err(error)), deliveries),
            (records, _) => self.take_out(now, records.map(Ok), deliveries),
        })
    }

    /// Takes out the first call, all of whose replies have come; those of a batch are its records,
    /// or an error. Says how many callers are answered.
    fn take_out(
        &mut self,
        now: Instant,
        records: Option<Result<&[u8], ServerError>>,
        deliveries: &mut Deliveries,
    ) -> usize {
        let Some(InFlight { call, since, .. }) = self.in_flight.pop_front() else { return 0 };
        let (callers, sections, batches) = match &call {
            InFlightCall::Batch(batch) => (batch.callers, batch.sections(), 1),
            InFlightCall::Groups(batch) => (batch.questions, 0, 1),
            InFlightCall::Commands(_) | InFlightCall::Marker(..) => (1, 0, 0),
        };
        self.callers_in_flight -= callers;
        self.sections_in_flight -= sections;
        self.batches_in_flight -= batches;
        self.limit.note_answer(now.saturating_duration_since(since), callers);
        let mut answered = 0;
        match (call, records) {
            (InFlightCall::Batch(batch), Some(Ok(records))) => {
                answered += self.trust(deliveries) + callers;
                self.batches.answer(batch, records, &mut deliveries.wakers);
            }
            (InFlightCall::Batch(batch), Some(Err(error))) => self.unproven.push(Unproven::Batch(batch, error)),
            (InFlightCall::Batch(batch), None) => self.batches.fail(batch, batch::unreadable, &mut deliveries.wakers),
            (InFlightCall::Groups(batch), Some(Ok(records))) => {
                answered += self.trust(deliveries) + callers;
                self.groups.answer(batch, records, deliveries);
            }
            (InFlightCall::Groups(batch), Some(Err(error))) => self.unproven.push(Unproven::Groups(batch, error)),
            (InFlightCall::Groups(batch), None) => self.groups.end(batch, || Err(batch::unreadable()), deliveries),
            (InFlightCall::Commands(commands), _) if commands.replies.are_proven() => {
                answered += self.trust(deliveries);
                deliveries.answer(commands.caller, commands.replies.into_answer());
            }
            (InFlightCall::Commands(commands), _) => self.unproven.push(Unproven::Commands(commands)),
            (InFlightCall::Marker(caller, replies), _) => {
                // Also if it was answered with an error, as by a server that does not serve: no
                // other reply could prove more.
                answered += self.trust(deliveries);
                if let Some(caller) = caller {
                    deliveries.answer(caller, replies.into_answer());
                }
            }
        }
        if self.needs_marker() {
            self.ping(None, now);
        }
        answered
    }

    /// Whether nothing in flight is sure to prove an error. Under load there is always something in
    /// flight, and after a second error in a row the next reply may be one too.
    fn needs_marker(&self) -> bool {
        let is_marker = |in_flight: &InFlight| matches!(in_flight.call, InFlightCall::Marker(..));
        match self.unproven.len() {
            0 => false,
            1 => self.in_flight.is_empty(),
            _ => !self.in_flight.iter().any(is_marker),
        }
    }

    /// Everything up to now was in step: hands out what was unproven. Says how many charges that
    /// answers.
    fn trust(&mut self, deliveries: &mut Deliveries) -> usize {
        let mut answered = 0;
        for unproven in std::mem::take(&mut self.unproven) {
            match unproven {
                Unproven::Commands(commands) => deliveries.answer(commands.caller, commands.replies.into_answer()),
                Unproven::Batch(batch, error) => {
                    answered += batch.callers;
                    self.batches.answer_error(batch, &error, &mut deliveries.wakers);
                }
                Unproven::Groups(batch, error) => {
                    answered += batch.questions;
                    self.groups.answer_error(batch, &error, deliveries);
                }
            }
        }
        if let Some(error) = &self.unready {
            // No charge is sent again.
            self.batches.fail_waiting(|| CallError::Unready(error.clone()), &mut deliveries.wakers);
            self.groups.fail_waiting(|| CallError::Unready(error.clone()), deliveries);
        }
        answered
    }
}
