//! [`Groups`]: which groups of questions share a call. Each is decided as a whole, all or none.
//!
//! Those of a script are sent in the order in which they came, and decided so, but that a group
//! that is put off may be overtaken by one that was on its way, and that leaving a place and
//! renewing leases go ahead. Between a group and other questions on its keys no order is kept: a
//! caller who wants one waits for the first answer.

use std::collections::VecDeque;
use std::time::Instant;

use redis::{ServerError, Value};
use tokio::sync::oneshot;

use super::deliveries::Deliveries;
use crate::store::redis::batching::Sharing;
use crate::store::redis::batching::batch::{MIN_SHARE, unreadable};
use crate::store::redis::batching::batches::ScriptCache;
use crate::store::redis::batching::records::{self, GroupRecord};
use crate::store::redis::scripts::group::{Group, GroupScript};
use crate::store::redis::scripts::number::Number;
use crate::store::redis::scripts::script;
use crate::store::redis::wire::commands::{CallError, CallResult};

/// How many questions the groups of one call have at most, so that it keeps the server no longer
/// than 250 µs: two rules on sorted sets or rings take 200,000 instructions, of which a server
/// executes some 2,500,000 in that time.
const MAX_QUESTIONS: usize = 24;

#[derive(Debug)]
pub(super) struct Groups {
    sharing: Sharing,
    lanes: [Lane; GroupScript::COUNT],
    /// The lane whose turn it is.
    turn: usize,
    /// How many wait in all lanes.
    waiting: usize,
    arrived: u64,
}

/// All groups of one script.
#[derive(Debug)]
struct Lane {
    /// Those that go ahead of all others, in order of arrival.
    ahead: VecDeque<WaitingGroup>,
    /// In order of arrival.
    waiting: VecDeque<WaitingGroup>,
    in_flight: usize,
    cache: ScriptCache,
}

#[derive(Debug)]
struct WaitingGroup {
    /// How many came before it.
    arrival: u64,
    group: Group,
    timeout_at: Option<Instant>,
    caller: oneshot::Sender<CallResult>,
}

/// A call that is filled, or in flight.
#[derive(Debug)]
pub(super) struct GroupBatch {
    pub(super) number: Number,
    script: GroupScript,
    /// Whether the script is sent along.
    in_full: bool,
    groups: Vec<WaitingGroup>,
    pub(super) questions: usize,
}

impl Groups {
    pub(super) fn new(sharing: Sharing) -> Self {
        Self { sharing, lanes: std::array::from_fn(|_| Lane::new()), turn: 0, waiting: 0, arrived: 0 }
    }

    pub(super) fn enter(&mut self, group: Group, timeout_at: Option<Instant>, caller: oneshot::Sender<CallResult>) {
        let waiting = WaitingGroup { arrival: self.arrived, group, timeout_at, caller };
        self.arrived += 1;
        self.waiting += 1;
        if let Some(lane) = self.lanes.get_mut(waiting.group.script().index()) {
            lane.queue_of(&waiting.group).push_back(waiting);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// How many groups could be sent now.
    pub(super) fn ready(&self) -> usize {
        if self.waiting == 0 {
            return 0;
        }
        self.lanes.iter().filter(|lane| lane.cache != ScriptCache::Loading).map(Lane::len).sum()
    }

    /// Writes the next call to `outgoing`, of about half of all groups that there are of a script:
    /// as with the sections of a batch, one half is decided while the callers of the other run.
    /// Callers whose timeout is before `in_time` are told that it is too late.
    pub(super) fn next(
        &mut self,
        outgoing: &mut Vec<u8>,
        in_time: Instant,
        deliveries: &mut Deliveries,
    ) -> Option<GroupBatch> {
        for _ in 0..self.lanes.len() {
            let turn = self.turn % self.lanes.len();
            self.turn = turn + 1;
            let Some(lane) = self.lanes.get_mut(turn).filter(|lane| lane.cache != ScriptCache::Loading) else {
                continue;
            };
            let before = lane.len();
            let batch = lane.next(self.sharing, outgoing, in_time, deliveries);
            self.waiting -= before - lane.len();
            if batch.is_some() {
                return batch;
            }
        }
        None
    }

    /// Hands [records](GroupBatch::records) to the callers. Groups that were put off wait again,
    /// ahead of those that came later.
    pub(super) fn answer(&mut self, batch: GroupBatch, mut records: &[u8], deliveries: &mut Deliveries) {
        self.note_end(&batch);
        let mut later = Vec::new();
        for waiting in batch.groups {
            let answer = match records::group(&mut records, waiting.group.len()) {
                Some(GroupRecord::Verdicts(records)) => Ok(Value::BulkString(records.to_vec())),
                Some(GroupRecord::Error(message)) => {
                    records::error(message).map(Value::ServerError).ok_or_else(unreadable)
                }
                Some(GroupRecord::Later) => {
                    later.push(waiting);
                    continue;
                }
                None => Err(unreadable()),
            };
            deliveries.tell(waiting.caller, answer);
        }
        self.wait_again(later);
    }

    /// The whole call was answered with an error. If the server did not know the script, it is sent
    /// again, with the script; else all callers are given the error.
    pub(super) fn answer_error(&mut self, batch: GroupBatch, error: &ServerError, deliveries: &mut Deliveries) {
        if !script::is_unknown(error) || batch.in_full {
            return self.end(batch, || Ok(Value::ServerError(error.clone())), deliveries);
        }
        self.note_end(&batch);
        if let Some(lane) = self.lanes.get_mut(batch.script.index())
            && lane.cache == ScriptCache::Loaded
        {
            lane.cache = ScriptCache::Missing;
        }
        self.wait_again(batch.groups);
    }

    /// Gives all callers of a call this answer.
    pub(super) fn end(&mut self, batch: GroupBatch, answer: impl Fn() -> CallResult, deliveries: &mut Deliveries) {
        self.note_end(&batch);
        for waiting in batch.groups {
            deliveries.tell(waiting.caller, answer());
        }
    }

    /// Gives all that wait an error.
    pub(super) fn fail_waiting(&mut self, why: impl Fn() -> CallError, deliveries: &mut Deliveries) {
        self.waiting = 0;
        for waiting in self.lanes.iter_mut().flat_map(|lane| lane.ahead.drain(..).chain(lane.waiting.drain(..))) {
            deliveries.fail(waiting.caller, why());
        }
    }

    fn wait_again(&mut self, groups: Vec<WaitingGroup>) {
        for group in groups {
            let Some(lane) = self.lanes.get_mut(group.group.script().index()) else { continue };
            let queue = lane.queue_of(&group.group);
            // Several calls may have been turned away.
            let place = queue.partition_point(|other| other.arrival < group.arrival);
            queue.insert(place, group);
            self.waiting += 1;
        }
    }

    fn note_end(&mut self, batch: &GroupBatch) {
        let Some(lane) = self.lanes.get_mut(batch.script.index()) else { return };
        lane.in_flight = lane.in_flight.saturating_sub(batch.groups.len());
        if batch.in_full {
            lane.cache = ScriptCache::Loaded;
        }
    }
}

impl Lane {
    fn new() -> Self {
        let (ahead, waiting) = (VecDeque::new(), VecDeque::new());
        Self { ahead, waiting, in_flight: 0, cache: ScriptCache::Loaded }
    }

    fn len(&self) -> usize {
        self.ahead.len() + self.waiting.len()
    }

    fn queue_of(&mut self, group: &Group) -> &mut VecDeque<WaitingGroup> {
        if group.is_ahead() { &mut self.ahead } else { &mut self.waiting }
    }

    fn next(
        &mut self,
        sharing: Sharing,
        outgoing: &mut Vec<u8>,
        in_time: Instant,
        deliveries: &mut Deliveries,
    ) -> Option<GroupBatch> {
        let share = self.in_flight.midpoint(self.len());
        let script = self.ahead.front().or(self.waiting.front())?.group.script();
        let mut batch = GroupBatch { number: Number::next(), script, in_full: false, groups: Vec::new(), questions: 0 };
        loop {
            let queue = if self.ahead.is_empty() { &mut self.waiting } else { &mut self.ahead };
            let Some(next) = queue.front() else { break };
            let is_late = next.timeout_at.is_some_and(|timeout_at| timeout_at < in_time);
            let is_over = is_late || next.caller.is_closed();
            if !is_over && !batch.admits(&next.group, share, sharing) {
                break;
            }
            let Some(next) = queue.pop_front() else { break };
            if !is_over {
                batch.questions += next.group.len();
                batch.groups.push(next);
            } else if is_late {
                deliveries.fail(next.caller, CallError::TooLate);
            }
        }
        if batch.groups.is_empty() {
            return None;
        }
        if self.cache == ScriptCache::Missing {
            (batch.in_full, self.cache) = (true, ScriptCache::Loading);
        }
        let groups: Vec<&Group> = batch.groups.iter().map(|waiting| &waiting.group).collect();
        Group::write(&groups, batch.in_full, batch.number, outgoing);
        self.in_flight += batch.groups.len();
        Some(batch)
    }
}

impl GroupBatch {
    fn admits(&self, group: &Group, share: usize, sharing: Sharing) -> bool {
        let Some(WaitingGroup { group: first, .. }) = self.groups.first() else { return true };
        let can_share = match sharing {
            Sharing::None => false,
            // While a slot moves, other keys may be elsewhere.
            Sharing::Keys => group.has_keys_of(first),
            Sharing::All => true,
        };
        can_share
            && group.can_share_with(first)
            && self.groups.len() < share.max(MIN_SHARE)
            && self.questions + group.len() <= MAX_QUESTIONS
    }

    /// The records in a reply that answers exactly what was asked; `None` if it does not.
    pub(super) fn records<'a>(&self, reply: &'a [u8]) -> Option<&'a [u8]> {
        let all = self.number.strip(reply)?;
        let mut rest = all;
        let fit = self.groups.iter().all(|waiting| records::group(&mut rest, waiting.group.len()).is_some());
        (fit && rest.is_empty()).then_some(all)
    }
}
