//! [`Batches`]: which decisions share a call. Nothing here is sent or received.
//!
//! Of each key at most one call is on its way, so those who come meanwhile wait, in order; the next call carries them. Equal
//! questions are asked as one, with how many ask it; others one after the other. Keys take turns.

use std::collections::VecDeque;
use std::hash::BuildHasher as _;
use std::task::Waker;
use std::time::Instant;

use foldhash::quality::RandomState;
use hashbrown::HashTable;
use redis::ServerError;

use super::item::Item;
use super::members::{Decided, List, Members};
use super::records::{self, Record};
use super::slab::Slab;
use crate::store::Verdict;
use crate::store::redis::errors;
use crate::store::redis::scripts::number::Number;
use crate::store::redis::scripts::protocol::CALLS;
use crate::store::redis::scripts::script::{self, Script};
use crate::store::redis::scripts::script_call::Call;
use crate::store::redis::wire::question::NoAnswer;

/// So many questions, and so many callers, share a call: it keeps the server for less than 250 µs.
pub(crate) const QUESTIONS: usize = 64;
pub(super) const CALLERS: usize = 512;

#[derive(Debug)]
pub(crate) struct Batches {
    /// Whether callers share calls at all.
    together: bool,
    members: Members,
    keys: Slab<Key>,
    hasher: RandomState,
    lanes: Vec<Lane>,
    /// The lane whose turn it is.
    turn: usize,
    /// Used over and over.
    spare: Vec<Vec<Section>>,
}

/// All that is asked of one script.
#[derive(Debug)]
struct Lane {
    script: &'static Script,
    /// Those that others may join, by their bytes.
    keys: HashTable<usize>,
    /// Keys with somebody who waits and no call on its way.
    ready: VecDeque<usize>,
    knowledge: Knowledge,
}

/// What the server knows of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Knowledge {
    /// It, as far as anybody can tell.
    Known,
    Unknown,
    /// The script is on its way; everybody waits for it.
    Sent,
}

#[derive(Debug)]
struct Key {
    bytes: Box<[u8]>,
    /// Of the bytes.
    hash: u64,
    waiting: List,
    is_asked: bool,
    is_ready: bool,
}

/// A question, and who asks it.
#[derive(Debug)]
struct Section {
    key: usize,
    members: List,
}

/// A call on its way.
#[derive(Debug)]
pub(crate) struct Batch {
    number: Number,
    lane: usize,
    /// Whether the script is sent along.
    in_full: bool,
    sections: Vec<Section>,
    pub(crate) callers: usize,
}

impl Batch {
    pub(crate) fn questions(&self) -> usize {
        self.sections.len()
    }
}

impl Batches {
    pub(crate) fn new(together: bool) -> Self {
        Self {
            together,
            members: Members::new(),
            keys: Slab::new(),
            hasher: RandomState::default(),
            lanes: Vec::new(),
            turn: 0,
            spare: Vec::new(),
        }
    }

    /// Takes in a caller, who waits from now on.
    pub(crate) fn enter(&mut self, item: &Item<'_>, waker: &Waker) -> usize {
        let lane = self.lane(item.script);
        let hash = self.hasher.hash_one(item.key);
        let is_it = |&key: &usize| *self.keys[key].bytes == *item.key;
        let known = self.lanes.get(lane).and_then(|lane| lane.keys.find(hash, is_it).copied());
        let key = known.unwrap_or_else(|| self.add_key(lane, item.key, hash));
        let Key { waiting, is_asked, is_ready, .. } = &mut self.keys[key];
        if !*is_asked
            && !*is_ready
            && let Some(lane) = self.lanes.get_mut(lane)
        {
            *is_ready = true;
            lane.ready.push_back(key);
        }
        self.members.enter(waiting, key, item.question.clone(), item.timeout_at, waker.clone())
    }

    fn lane(&mut self, script: &'static Script) -> usize {
        self.lanes.iter().position(|lane| std::ptr::eq(lane.script, script)).unwrap_or_else(|| {
            self.lanes.push(Lane {
                script,
                keys: HashTable::new(),
                ready: VecDeque::new(),
                knowledge: Knowledge::Known,
            });
            self.lanes.len() - 1
        })
    }

    fn add_key(&mut self, lane: usize, bytes: &[u8], hash: u64) -> usize {
        let key = Key { bytes: bytes.into(), hash, waiting: List::default(), is_asked: false, is_ready: false };
        let key = self.keys.insert(key);
        if let (true, Some(lane)) = (self.together, self.lanes.get_mut(lane)) {
            lane.keys.insert_unique(hash, key, |&other| self.keys[other].hash);
        }
        key
    }

    /// The answer to a caller, who has not been told it yet; see [`Members::poll`].
    pub(crate) fn poll(&mut self, member: usize, waker: &Waker) -> Result<Decided, Option<Waker>> {
        self.members.poll(member, waker)
    }

    /// A caller gives up. Whoever was not asked for leaves nothing behind.
    pub(crate) fn give_up(&mut self, member: usize) -> Option<Waker> {
        match self.members.waits_at(member) {
            Some(key) => self.members.leave(&mut self.keys[key].waiting, member),
            None => self.members.abandon(member),
        }
    }

    /// How many keys could be asked for now.
    pub(crate) fn ready(&self) -> usize {
        self.lanes.iter().filter(|lane| lane.knowledge != Knowledge::Sent).map(|lane| lane.ready.len()).sum()
    }

    /// Whether nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.lanes.iter().all(|lane| lane.ready.is_empty())
    }

    /// Writes the next call, of at most `most` questions, to `outgoing`. Whoever does not wait until `in_time` is told that
    /// it is too late.
    pub(crate) fn next(
        &mut self,
        outgoing: &mut Vec<u8>,
        most: usize,
        in_time: Instant,
        wakers: &mut Vec<Waker>,
    ) -> Option<Batch> {
        for _ in 0..self.lanes.len() {
            let lane = self.turn % self.lanes.len();
            self.turn = lane + 1;
            let sections = self.spare.pop().unwrap_or_default();
            let mut batch = Batch { number: Number::next(), lane, in_full: false, sections, callers: 0 };
            self.fill(&mut batch, most, in_time, wakers);
            if batch.sections.is_empty() {
                self.spare.push(batch.sections);
                continue;
            }
            self.write(&mut batch, outgoing);
            return Some(batch);
        }
        None
    }

    /// Takes in those whose turn it is.
    fn fill(&mut self, batch: &mut Batch, most: usize, in_time: Instant, wakers: &mut Vec<Waker>) {
        let Some(lane) = self.lanes.get_mut(batch.lane) else { return };
        if lane.knowledge == Knowledge::Sent {
            return;
        }
        // All in one call go by the same clock.
        let mut clock = None;
        while batch.sections.len() < most && batch.callers < CALLERS {
            let Some(&index) = lane.ready.front() else { return };
            let key = &mut self.keys[index];
            while let Some(member) = key.waiting.first()
                && batch.callers < CALLERS
            {
                if self.members.timeout_at(member).is_some_and(|until| until < in_time) {
                    wakers.extend(self.members.answer_first(&mut key.waiting, Err(NoAnswer::TooLate)));
                    continue;
                }
                let question = self.members.question(member);
                if *clock.get_or_insert(question.now) != question.now {
                    break;
                }
                let is_same = batch.sections.last().is_some_and(|last| {
                    let asked = last.members.first().map(|first| self.members.question(first));
                    last.key == index && question.is_unit && asked == Some(question)
                });
                if !is_same {
                    if batch.sections.len() == most {
                        break;
                    }
                    batch.sections.push(Section { key: index, members: List::default() });
                }
                let Some(section) = batch.sections.last_mut() else { break };
                self.members.ask(&mut key.waiting, &mut section.members);
                batch.callers += 1;
            }
            let was_taken = batch.sections.last().is_some_and(|last| last.key == index);
            if !was_taken && !key.waiting.is_empty() {
                // Its clock is another one.
                return;
            }
            lane.ready.pop_front();
            key.is_ready = false;
            key.is_asked = was_taken;
            if !was_taken {
                remove(&mut self.keys, lane, index);
            }
        }
    }

    fn write(&mut self, batch: &mut Batch, outgoing: &mut Vec<u8>) {
        let Some(lane) = self.lanes.get_mut(batch.lane) else { return };
        batch.in_full = lane.knowledge == Knowledge::Unknown;
        if batch.in_full {
            lane.knowledge = Knowledge::Sent;
        }
        let sections = || batch.sections.iter();
        let first = |section: &Section| section.members.first().map(|member| self.members.question(member));
        let mut call = Call::begin(outgoing, lane.script, batch.in_full, batch.sections.len());
        for section in sections() {
            call.argument(&self.keys[section.key].bytes);
        }
        call.head(sections().next().and_then(first).and_then(|question| question.now), batch.number);
        for section in sections() {
            let Some(question) = first(section) else { continue };
            let calls = u16::try_from(section.members.len).unwrap_or(u16::MAX).to_le_bytes();
            if let Some(place) = call.argument(&question.packed).get_mut(CALLS) {
                place.copy_from_slice(&calls);
            }
        }
    }

    /// The records in a reply that answers exactly what was asked; `None` if it does not.
    pub(crate) fn records<'a>(batch: &Batch, reply: &'a [u8]) -> Option<&'a [u8]> {
        let all = batch.number.strip(reply)?;
        let (mut rest, mut sections) = (all, batch.sections.iter());
        let fit = sections.all(|section| records::skip(&mut rest, section.members.len).is_some()) && rest.is_empty();
        fit.then_some(all)
    }

    /// Hands [records](Self::records) to the callers.
    pub(crate) fn answer(&mut self, mut batch: Batch, mut reply: &[u8], wakers: &mut Vec<Waker>) {
        for section in &mut batch.sections {
            let counts_tickets =
                section.members.first().is_some_and(|first| self.members.question(first).counts_tickets);
            while !section.members.is_empty() {
                match records::next(&mut reply) {
                    Some(Record::Verdict(last, callers)) => {
                        for index in 0..callers {
                            let verdict = nth(last, index, callers, counts_tickets);
                            wakers.extend(self.members.answer_first(&mut section.members, Ok(verdict)));
                        }
                    }
                    Some(Record::Later(_)) => break,
                    Some(Record::Error(message)) => {
                        let error = records::error(message);
                        let why = || error.clone().map_or_else(lost, NoAnswer::Error);
                        fail(&mut self.members, &mut section.members, why, wakers);
                    }
                    None => fail(&mut self.members, &mut section.members, lost, wakers),
                }
            }
        }
        // Those who were put off wait again, ahead of those who came later.
        for section in batch.sections.iter_mut().rev().filter(|section| !section.members.is_empty()) {
            self.members.wait_again(std::mem::take(&mut section.members), &mut self.keys[section.key].waiting);
        }
        self.finish(batch);
    }

    /// The whole call was answered with an error. If the server did not know the script, it is asked again, with the
    /// script; else that is the answer to everybody.
    pub(crate) fn answer_error(&mut self, batch: Batch, error: &ServerError, wakers: &mut Vec<Waker>) {
        if script::is_unknown(error) && !batch.in_full {
            self.ask_again(batch);
            return;
        }
        self.fail(batch, || NoAnswer::Error(error.clone()), wakers);
    }

    fn ask_again(&mut self, mut batch: Batch) {
        let Some(lane) = self.lanes.get_mut(batch.lane) else { return };
        if lane.knowledge == Knowledge::Known {
            lane.knowledge = Knowledge::Unknown;
        }
        for section in batch.sections.drain(..).rev() {
            let key = &mut self.keys[section.key];
            self.members.wait_again(section.members, &mut key.waiting);
            key.is_asked = false;
            if !key.is_ready {
                key.is_ready = true;
                lane.ready.push_front(section.key);
            }
        }
        self.spare.push(batch.sections);
    }

    /// Nothing will come of a call any more.
    pub(crate) fn fail(&mut self, mut batch: Batch, why: impl Fn() -> NoAnswer, wakers: &mut Vec<Waker>) {
        for section in &mut batch.sections {
            fail(&mut self.members, &mut section.members, &why, wakers);
        }
        self.finish(batch);
    }

    /// Answers all who wait.
    pub(crate) fn fail_waiting(&mut self, why: impl Fn() -> NoAnswer, wakers: &mut Vec<Waker>) {
        for lane in &mut self.lanes {
            while let Some(index) = lane.ready.pop_front() {
                self.keys[index].is_ready = false;
                fail(&mut self.members, &mut self.keys[index].waiting, &why, wakers);
                remove(&mut self.keys, lane, index);
            }
            // Those whose key is on its way.
            for &index in &lane.keys {
                fail(&mut self.members, &mut self.keys[index].waiting, &why, wakers);
            }
        }
    }

    /// Lets those go on who waited for a call to be answered.
    fn finish(&mut self, mut batch: Batch) {
        let Some(lane) = self.lanes.get_mut(batch.lane) else { return };
        if batch.in_full {
            lane.knowledge = Knowledge::Known;
        }
        let mut last = None;
        for Section { key: index, .. } in batch.sections.drain(..) {
            // A key with several questions has them in a row.
            if last.replace(index) == Some(index) {
                continue;
            }
            let key = &mut self.keys[index];
            key.is_asked = false;
            if key.waiting.is_empty() {
                remove(&mut self.keys, lane, index);
            } else {
                key.is_ready = true;
                lane.ready.push_back(index);
            }
        }
        self.spare.push(batch.sections);
    }
}

#[cfg(test)]
impl Batches {
    pub(crate) fn waits(&self, member: usize) -> bool {
        self.members.waits_at(member).is_some()
    }

    pub(crate) fn members(&self) -> usize {
        self.members.len()
    }
}

/// Forgets a key for which nobody waits.
fn remove(keys: &mut Slab<Key>, lane: &mut Lane, index: usize) {
    if let Ok(entry) = lane.keys.find_entry(keys[index].hash, |&key| key == index) {
        entry.remove();
    }
    keys.remove(index);
}

fn fail(members: &mut Members, list: &mut List, why: impl Fn() -> NoAnswer, wakers: &mut Vec<Waker>) {
    while !list.is_empty() {
        wakers.extend(members.answer_first(list, Err(why())));
    }
}

/// The verdict on one of several that share one. If they are admitted, what is left is less for each.
fn nth(last: Verdict, index: usize, callers: usize, counts_tickets: bool) -> Verdict {
    if !last.allowed {
        return last;
    }
    let count = |callers: usize| u64::try_from(callers).unwrap_or(u64::MAX);
    let ticket = if counts_tickets { last.ticket + count(index) } else { last.ticket };
    Verdict { remaining: last.remaining + count(callers - 1 - index), ticket, ..last }
}

/// A reply that is none.
pub(crate) fn lost() -> NoAnswer {
    NoAnswer::Lost(errors::unexpected_reply())
}
