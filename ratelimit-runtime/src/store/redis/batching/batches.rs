//! [`Batches`]: which charges share a call.
//!
//! Where callers share, of each key at most one call is in flight. Charges that come meanwhile
//! wait, in order; the next call carries them. Charges of one key with equal terms are asked for as
//! one, with how many they are; others one after the other. Keys take turns. Where callers do not
//! share, each charge is a key of its own.
//!
//! Between any two calls of these functions:
//!
//! - a key is either ready, and then once in the `ready` of its lane, or in flight, and then in one
//!   batch, in sections that follow one another; one that is neither has been forgotten;
//! - the `keys` of a lane are its keys, ready or in flight, where callers share, and else empty;
//! - a member that waits is in the list of its key, one that was sent in that of its section, also
//!   if it was abandoned, and one that was answered in none;
//! - a ready key may have no member any more, after they were cancelled: its turn forgets it;
//! - the script of a lane is loading exactly while a batch that carries it is not answered; no
//!   other batch of the lane is written meanwhile.
#![allow(clippy::indexing_slicing, reason = "an index into a slab is held by what removes its value")]

use std::collections::VecDeque;
use std::hash::BuildHasher as _;
use std::task::Waker;
use std::time::Instant;

use foldhash::quality::RandomState;
use hashbrown::HashTable;
use redis::ServerError;
use slab::Slab;
use smallvec::SmallVec;

use super::batch::{Batch, ChargedKey, MAX_CALLERS, Section};
use super::charge::KeyCharge;
use super::members::{MemberList, Members, VerdictResult};
use crate::store::redis::scripts::script::{self, Script};
use crate::store::redis::wire::commands::CallError;

#[derive(Debug)]
pub(crate) struct Batches {
    /// Whether callers share calls at all.
    shares: bool,
    members: Members,
    keys: Slab<ChargedKey>,
    hasher: RandomState,
    lanes: Vec<Lane>,
    /// The lane whose turn it is.
    turn: usize,
    /// Memory of former batches, to be used again.
    spare: Vec<Vec<Section>>,
}

/// All charges by one script.
#[derive(Debug)]
struct Lane {
    script: &'static Script,
    /// Keys that other callers may join, by their bytes.
    keys: HashTable<usize>,
    /// Keys with a charge that waits, and no call in flight.
    ready: VecDeque<usize>,
    cache: ScriptCache,
}

/// Whether the server has a script in its cache, as far as this process knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScriptCache {
    Loaded,
    Missing,
    /// The script is in flight; all other calls of it wait.
    Loading,
}

impl Batches {
    pub(crate) fn new(shares: bool) -> Self {
        Self {
            shares,
            members: Members::new(),
            keys: Slab::new(),
            hasher: RandomState::default(),
            lanes: Vec::new(),
            turn: 0,
            spare: Vec::new(),
        }
    }

    /// Takes in a charge, which waits from now on. Gives the member that it is.
    pub(crate) fn enter(&mut self, charge: &KeyCharge<'_>, waker: &Waker) -> usize {
        let lane = self.lane(charge.script);
        let hash = self.hasher.hash_one(charge.key);
        let is_it = |&key: &usize| *self.keys[key].bytes == *charge.key;
        let known = self.lanes.get(lane).and_then(|lane| lane.keys.find(hash, is_it).copied());
        let key = known.unwrap_or_else(|| self.add_key(lane, charge.key, hash));
        let ChargedKey { waiting, is_in_flight, is_ready, .. } = &mut self.keys[key];
        if !*is_in_flight
            && !*is_ready
            && let Some(lane) = self.lanes.get_mut(lane)
        {
            *is_ready = true;
            lane.ready.push_back(key);
        }
        self.members.enter(waiting, key, charge.terms.clone(), charge.timeout_at, waker.clone())
    }

    fn lane(&mut self, script: &'static Script) -> usize {
        self.lanes.iter().position(|lane| std::ptr::eq(lane.script, script)).unwrap_or_else(|| {
            self.lanes.push(Lane {
                script,
                keys: HashTable::new(),
                ready: VecDeque::new(),
                cache: ScriptCache::Loaded,
            });
            self.lanes.len() - 1
        })
    }

    fn add_key(&mut self, lane: usize, bytes: &[u8], hash: u64) -> usize {
        let waiting = MemberList::default();
        let key =
            ChargedKey { bytes: SmallVec::from_slice(bytes), hash, waiting, is_in_flight: false, is_ready: false };
        let key = self.keys.insert(key);
        if let (true, Some(lane)) = (self.shares, self.lanes.get_mut(lane)) {
            lane.keys.insert_unique(hash, key, |&other| self.keys[other].hash);
        }
        key
    }

    /// The verdict on a member, which can be taken once; see [`Members::poll`].
    pub(crate) fn poll(&mut self, member: usize, waker: &Waker) -> Result<VerdictResult, Option<Waker>> {
        self.members.poll(member, waker)
    }

    /// Hands out wakers of members that are overdue; see [`Members::take_overdue`].
    pub(crate) fn take_overdue(&mut self, now: Instant, wakers: &mut Vec<Waker>) -> Option<Instant> {
        self.members.take_overdue(now, wakers)
    }

    /// Cancels a member. One that was not sent leaves nothing behind.
    pub(crate) fn cancel(&mut self, member: usize) -> Option<Waker> {
        match self.members.waits_at(member) {
            Some(key) => self.members.leave(&mut self.keys[key].waiting, member),
            None => self.members.abandon(member),
        }
    }

    /// How many keys could be asked for now.
    pub(crate) fn ready(&self) -> usize {
        let lanes = self.lanes.iter().filter(|lane| lane.cache != ScriptCache::Loading);
        lanes.map(|lane| lane.ready.len()).sum()
    }

    /// Whether no key waits for a call.
    pub(crate) fn is_empty(&self) -> bool {
        self.lanes.iter().all(|lane| lane.ready.is_empty())
    }

    /// Writes the next call, of at most `max_sections`, to `outgoing`. Members whose timeout is
    /// before `in_time` are told that it is too late.
    pub(crate) fn next(
        &mut self,
        outgoing: &mut Vec<u8>,
        max_sections: usize,
        in_time: Instant,
        wakers: &mut Vec<Waker>,
    ) -> Option<Batch> {
        for _ in 0..self.lanes.len() {
            let lane = self.turn % self.lanes.len();
            self.turn = lane + 1;
            let mut batch = Batch::new(lane, self.spare.pop().unwrap_or_default());
            self.fill(&mut batch, max_sections, in_time, wakers);
            if batch.sections.is_empty() {
                self.spare.push(batch.sections);
                continue;
            }
            self.write(&mut batch, outgoing);
            return Some(batch);
        }
        None
    }

    /// Takes in the members whose turn it is.
    fn fill(&mut self, batch: &mut Batch, max_sections: usize, in_time: Instant, wakers: &mut Vec<Waker>) {
        let Some(lane) = self.lanes.get_mut(batch.lane) else { return };
        if lane.cache == ScriptCache::Loading {
            return;
        }
        // One call has one clock.
        let mut clock = None;
        while batch.sections.len() < max_sections && batch.callers < MAX_CALLERS {
            let Some(&index) = lane.ready.front() else { return };
            let key = &mut self.keys[index];
            while let Some(member) = key.waiting.first()
                && batch.callers < MAX_CALLERS
            {
                if self.members.timeout_at(member).is_some_and(|timeout_at| timeout_at < in_time) {
                    wakers.extend(self.members.answer_first(&mut key.waiting, Err(CallError::TooLate)));
                    continue;
                }
                let terms = self.members.terms(member);
                if *clock.get_or_insert(terms.now) != terms.now {
                    break;
                }
                if !batch.can_join(index, terms, &self.members) {
                    if batch.sections.len() == max_sections {
                        break;
                    }
                    batch.begin_section(index);
                }
                let Some(section) = batch.sections.last_mut() else { break };
                self.members.send(&mut key.waiting, &mut section.members);
                batch.callers += 1;
            }
            let was_taken = batch.sections.last().is_some_and(|last| last.key == index);
            if !was_taken && !key.waiting.is_empty() {
                // Its clock is another one.
                return;
            }
            lane.ready.pop_front();
            key.is_ready = false;
            key.is_in_flight = was_taken;
            if !was_taken {
                forget(&mut self.keys, lane, index);
            }
        }
    }

    fn write(&mut self, batch: &mut Batch, outgoing: &mut Vec<u8>) {
        let Some(lane) = self.lanes.get_mut(batch.lane) else { return };
        batch.in_full = lane.cache == ScriptCache::Missing;
        if batch.in_full {
            lane.cache = ScriptCache::Loading;
        }
        batch.write(lane.script, &self.keys, &self.members, outgoing);
    }

    /// The records in a reply that answers exactly what a batch asks; `None` if it does not.
    pub(crate) fn records<'a>(&self, batch: &Batch, reply: &'a [u8]) -> Option<&'a [u8]> {
        batch.records(reply, &self.members)
    }

    /// Hands [records](Self::records) to the callers of a batch.
    pub(crate) fn answer(&mut self, mut batch: Batch, records: &[u8], wakers: &mut Vec<Waker>) {
        batch.answer(records, &mut self.members, wakers);
        // Members that were put off wait again, ahead of those that came later.
        for section in batch.sections.iter_mut().rev().filter(|section| !section.members.is_empty()) {
            self.members.wait_again(std::mem::take(&mut section.members), &mut self.keys[section.key].waiting);
        }
        self.free_keys(batch);
    }

    /// The whole call was answered with an error. If the server did not know the script, the call
    /// is sent again, with the script; else all callers are given the error.
    pub(crate) fn answer_error(&mut self, batch: Batch, error: &ServerError, wakers: &mut Vec<Waker>) {
        if script::is_unknown(error) && !batch.in_full {
            self.ask_again(batch);
            return;
        }
        self.fail(batch, || CallError::Server(error.clone()), wakers);
    }

    fn ask_again(&mut self, mut batch: Batch) {
        let Some(lane) = self.lanes.get_mut(batch.lane) else { return };
        if lane.cache == ScriptCache::Loaded {
            lane.cache = ScriptCache::Missing;
        }
        for section in batch.sections.drain(..).rev() {
            let key = &mut self.keys[section.key];
            self.members.wait_again(section.members, &mut key.waiting);
            key.is_in_flight = false;
            if !key.is_ready {
                key.is_ready = true;
                lane.ready.push_front(section.key);
            }
        }
        self.spare.push(batch.sections);
    }

    /// Gives all callers of a batch an error.
    pub(crate) fn fail(&mut self, mut batch: Batch, why: impl Fn() -> CallError, wakers: &mut Vec<Waker>) {
        for section in &mut batch.sections {
            self.members.fail(&mut section.members, &why, wakers);
        }
        self.free_keys(batch);
    }

    /// Gives all that wait an error.
    pub(crate) fn fail_waiting(&mut self, why: impl Fn() -> CallError, wakers: &mut Vec<Waker>) {
        for lane in &mut self.lanes {
            while let Some(index) = lane.ready.pop_front() {
                self.keys[index].is_ready = false;
                self.members.fail(&mut self.keys[index].waiting, &why, wakers);
                forget(&mut self.keys, lane, index);
            }
            // Those whose key is in flight.
            for &index in &lane.keys {
                self.members.fail(&mut self.keys[index].waiting, &why, wakers);
            }
        }
    }

    /// Lets the keys of a batch be asked for again.
    fn free_keys(&mut self, mut batch: Batch) {
        let Some(lane) = self.lanes.get_mut(batch.lane) else { return };
        if batch.in_full {
            lane.cache = ScriptCache::Loaded;
        }
        let mut last = None;
        for Section { key: index, .. } in batch.sections.drain(..) {
            // A key with several sections has them in a row.
            if last.replace(index) == Some(index) {
                continue;
            }
            let key = &mut self.keys[index];
            key.is_in_flight = false;
            if key.waiting.is_empty() {
                forget(&mut self.keys, lane, index);
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

    /// Panics unless what the head of this file says of keys and lanes holds.
    pub(crate) fn assert_consistent(&self) {
        for (index, key) in &self.keys {
            assert!(key.is_ready != key.is_in_flight, "key {index} is either ready or in flight");
            let times = self.lanes.iter().flat_map(|lane| &lane.ready).filter(|ready| **ready == index).count();
            assert_eq!(times, usize::from(key.is_ready), "key {index} is in a lane exactly while it is ready");
        }
        for lane in &self.lanes {
            assert!(lane.ready.iter().chain(&lane.keys).all(|&index| self.keys.contains(index)), "a lane has its keys");
        }
        let shared: usize = self.lanes.iter().map(|lane| lane.keys.len()).sum();
        assert_eq!(shared, if self.shares { self.keys.len() } else { 0 }, "keys that callers may join");
    }
}

/// Forgets a key without callers.
fn forget(keys: &mut Slab<ChargedKey>, lane: &mut Lane, index: usize) {
    if let Ok(entry) = lane.keys.find_entry(keys[index].hash, |&key| key == index) {
        entry.remove();
    }
    super::remove(keys, index);
}
