//! What is written next, and when.

use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::deliveries::Deliveries;
use super::replies::Replies;
use super::{InFlight, InFlightCall, InFlightQueue, PendingCommands, Waiting};
use crate::store::redis::batching::batch::MIN_SHARE;
use crate::store::redis::wire::commands::{CallError, CallResult, Commands};

/// The list of waiting commands keeps capacity for this many; more is given back after a flood.
const KEPT: usize = 1024;
/// The buffer keeps capacity for this many bytes.
const KEPT_BYTES: usize = 64 * 1024;

impl InFlightQueue {
    /// Whether charges or groups that wait may be sent.
    pub(crate) fn has_turn(&self) -> bool {
        self.may_send(self.batches.ready()) || self.may_send(self.groups.ready())
    }

    /// Whether a batch may be sent of so many sections, or groups, that are ready.
    fn may_send(&self, ready: usize) -> bool {
        ready > 0
            && self.limit.admits(self.callers_in_flight)
            && (self.batches_in_flight < self.limit.batches() || ready >= self.full)
    }

    /// Whether so many wait that they should not wait for others.
    pub(crate) fn has_share(&self) -> bool {
        let ready = self.batches.ready().max(self.groups.ready());
        self.may_send(ready) && ready >= self.share()
    }

    /// How many sections a batch should have: about half of all there are. Then one half is decided
    /// while the callers of the other half run and charge again, which takes this process about as
    /// long as it takes the server; and there are no more calls than it takes for that.
    fn share(&self) -> usize {
        let all = self.sections_in_flight.midpoint(self.batches.ready());
        all.clamp(MIN_SHARE.min(self.full), self.full)
    }

    /// Writes a `PING` ahead of all that wait, whether the server serves or not.
    pub(crate) fn ping(&mut self, caller: Option<oneshot::Sender<CallResult>>, now: Instant) {
        let Commands { packed, expected, .. } = Commands::marker();
        self.write(&packed, InFlightCall::Marker(caller, Replies::new(expected)), now);
    }

    pub(super) fn write_commands(&mut self, commands: Commands, caller: oneshot::Sender<CallResult>, now: Instant) {
        let Commands { packed, expected, .. } = commands;
        let pending = PendingCommands { caller, replies: Replies::new(expected) };
        self.write(&packed, InFlightCall::Commands(pending), now);
    }

    fn write(&mut self, packed: &[u8], call: InFlightCall, now: Instant) {
        self.in_flight.push_back(InFlight { call, starts_at: self.end(), since: now });
        self.callers_in_flight += 1;
        self.outgoing.extend_from_slice(packed);
    }

    /// Where the next call starts in the stream of all bytes sent.
    fn end(&self) -> u64 {
        self.sent + count(&self.outgoing)
    }

    /// Writes what waits, as far as the limit admits: commands, batches and groups in turn.
    pub(crate) fn move_up(&mut self, now: Instant, deliveries: &mut Deliveries) {
        let waits = !self.waiting.is_empty() || !self.batches.is_empty() || !self.groups.is_empty();
        self.limit.adapt(self.in_flight.is_empty(), waits);
        loop {
            let has_moved = self.move_commands_up(now, deliveries);
            let has_sent = self.send_batch(now, deliveries);
            if !self.send_groups(now, deliveries) && !has_sent && !has_moved {
                return;
            }
        }
    }

    fn move_commands_up(&mut self, now: Instant, deliveries: &mut Deliveries) -> bool {
        while self.limit.admits(self.callers_in_flight) {
            let Some(Waiting { commands, caller }) = self.waiting.pop_front() else {
                self.waiting.shrink_to(KEPT);
                return false;
            };
            if caller.is_closed() {
                continue;
            }
            if commands.timeout_at.is_some_and(|timeout_at| timeout_at < self.answer_at(now)) {
                deliveries.fail(caller, CallError::TooLate);
                continue;
            }
            self.write_commands(commands, caller, now);
            return true;
        }
        false
    }

    /// When an answer to what is sent now will come. With nothing in flight that is at once: what
    /// took long before may not any more, and only an answer tells.
    fn answer_at(&self, now: Instant) -> Instant {
        if self.in_flight.is_empty() { now + Duration::from_nanos(1) } else { self.limit.answer_at(now) }
    }

    fn send_batch(&mut self, now: Instant, deliveries: &mut Deliveries) -> bool {
        if !self.may_send(self.batches.ready()) {
            self.note_full(!self.batches.is_empty());
            return false;
        }
        let (share, in_time) = (self.share(), self.answer_at(now));
        let starts_at = self.end();
        let batch = self.batches.next(&mut self.outgoing, share, in_time, &mut deliveries.wakers);
        let Some(batch) = batch else { return false };
        self.sections_in_flight += batch.sections();
        let (questions, call) = (batch.callers, InFlightCall::Batch(batch));
        self.note_batch(questions, InFlight { call, starts_at, since: now }, deliveries);
        true
    }

    fn send_groups(&mut self, now: Instant, deliveries: &mut Deliveries) -> bool {
        if !self.may_send(self.groups.ready()) {
            self.note_full(!self.groups.is_empty());
            return false;
        }
        let (starts_at, in_time) = (self.end(), self.answer_at(now));
        let Some(batch) = self.groups.next(&mut self.outgoing, in_time, deliveries) else { return false };
        let (questions, call) = (batch.questions, InFlightCall::Groups(batch));
        self.note_batch(questions, InFlight { call, starts_at, since: now }, deliveries);
        true
    }

    fn note_full(&mut self, waits: bool) {
        if waits && !self.limit.admits(self.callers_in_flight) {
            self.limit.note_full();
        }
    }

    fn note_batch(&mut self, questions: usize, in_flight: InFlight, deliveries: &mut Deliveries) {
        deliveries.batches.add(questions);
        self.callers_in_flight += questions;
        self.batches_in_flight += 1;
        self.in_flight.push_back(in_flight);
    }

    /// Notes how much of [`outgoing`](Self::outgoing) the system has taken.
    pub(crate) fn note_sent(&mut self, bytes: usize) {
        self.sent += u64::try_from(bytes).unwrap_or(u64::MAX);
        if bytes >= self.outgoing.len() {
            self.outgoing.clear();
            self.outgoing.shrink_to(KEPT_BYTES);
        } else {
            self.outgoing.drain(..bytes);
        }
    }
}

fn count(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}
