//! [`Batch`]: one call of a script that carries the charges of several callers.
#![allow(clippy::indexing_slicing, reason = "an index into a slab is held by what removes its value")]

use std::task::Waker;

use slab::Slab;
use smallvec::SmallVec;

use super::charge::{ChargeTerms, SectionSharing};
use super::members::{MemberList, Members};
use super::records::{self, BatchRecord};
use crate::store::Verdict;
use crate::store::redis::errors;
use crate::store::redis::scripts::number::Number;
use crate::store::redis::scripts::protocol::{CALLS, COVERS};
use crate::store::redis::scripts::script::Script;
use crate::store::redis::scripts::script_call::ScriptCall;
use crate::store::redis::wire::commands::CallError;

/// How many sections and how many callers one call has at most: it keeps the server for less than
/// 250 µs.
pub(crate) const MAX_SECTIONS: usize = 64;
pub(super) const MAX_CALLERS: usize = 512;
/// Calls of fewer sections or groups are never split in two.
pub(crate) const MIN_SHARE: usize = 8;

/// A key, with the charges that wait for it. Where callers do not share, several may have the same
/// bytes.
#[derive(Debug)]
pub(super) struct ChargedKey {
    /// In line, so that no memory is taken for an ordinary key.
    pub(super) bytes: SmallVec<[u8; 88]>,
    /// Of the bytes.
    pub(super) hash: u64,
    pub(super) waiting: MemberList,
    pub(super) is_in_flight: bool,
    pub(super) is_ready: bool,
}

/// The callers of one key with equal terms.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) key: usize,
    pub(super) members: MemberList,
    /// Whether the section before it has the same key.
    is_further: bool,
}

impl Section {
    fn terms<'a>(&self, members: &'a Members) -> Option<&'a ChargeTerms> {
        self.members.first().map(|first| members.terms(first))
    }

    fn sharing(&self, members: &Members) -> SectionSharing {
        self.terms(members).map_or(SectionSharing::Never, |terms| terms.sharing)
    }

    /// How many calls it asks for.
    fn calls(&self, members: &Members) -> usize {
        if self.sharing(members) == SectionSharing::Answer { 1 } else { self.members.len }
    }

    /// Whether one question asks for both. One of several sections of a key has a question of its
    /// own.
    fn shares_question(&self, next: &Self, members: &Members) -> bool {
        !self.is_further
            && !next.is_further
            && self.calls(members) == next.calls(members)
            && self.terms(members) == next.terms(members)
    }
}

/// A call that is filled, or in flight.
#[derive(Debug)]
pub(crate) struct Batch {
    number: Number,
    pub(super) lane: usize,
    /// Whether the script is sent along.
    pub(super) in_full: bool,
    pub(super) sections: Vec<Section>,
    pub(crate) callers: usize,
}

impl Batch {
    /// An empty one. `sections` is empty, and may have capacity.
    pub(super) fn new(lane: usize, sections: Vec<Section>) -> Self {
        Self { number: Number::next(), lane, in_full: false, sections, callers: 0 }
    }

    pub(crate) fn sections(&self) -> usize {
        self.sections.len()
    }

    /// Whether the callers of the last section are of this key, and have these terms.
    pub(super) fn can_join(&self, key: usize, terms: &ChargeTerms, members: &Members) -> bool {
        let can_share = |last: &Section| {
            last.key == key && terms.sharing != SectionSharing::Never && last.terms(members) == Some(terms)
        };
        self.sections.last().is_some_and(can_share)
    }

    /// Takes a key in, of which no other caller is in the batch, or those of the last section.
    pub(super) fn begin_section(&mut self, key: usize) {
        let is_further = self.sections.last().is_some_and(|last| last.key == key);
        self.sections.push(Section { key, members: MemberList::default(), is_further });
    }

    /// Writes the call to `outgoing`.
    pub(super) fn write(
        &mut self,
        script: &Script,
        keys: &Slab<ChargedKey>,
        members: &Members,
        outgoing: &mut Vec<u8>,
    ) {
        let are_alike = self.group(members);
        let asked = self.sections.iter().filter(|section| !section.is_further);
        let questions = || self.sections.chunk_by(|one, next| are_alike || one.shares_question(next, members));
        let count = if are_alike { 1 } else { questions().count() };
        let mut call = ScriptCall::begin(outgoing, script, self.in_full, asked.clone().count(), count);
        for section in asked {
            call.argument(&keys[section.key].bytes);
        }
        let first = self.sections.first().and_then(|section| section.terms(members));
        call.head(self.number, first.and_then(|terms| terms.now));
        for sections in questions() {
            let Some((section, terms)) = sections.first().and_then(|first| Some((first, first.terms(members)?))) else {
                continue;
            };
            let covers = if section.is_further { 0 } else { sections.len() };
            let question = call.argument(&terms.packed);
            for (place, number) in [(CALLS, section.calls(members)), (COVERS, covers)] {
                if let Some(place) = question.get_mut(place) {
                    place.copy_from_slice(&u16::try_from(number).unwrap_or(u16::MAX).to_le_bytes());
                }
            }
        }
    }

    /// Puts sections that one question can ask for beside one another. Those of a call with several
    /// sections of one key stay in order. Says whether one question can ask for all.
    fn group(&mut self, members: &Members) -> bool {
        if self.sections.iter().any(|section| section.is_further) {
            return false;
        }
        if let Some((first, others)) = self.sections.split_first()
            && others.iter().all(|other| first.shares_question(other, members))
        {
            return true;
        }
        let terms = |section: &Section| section.terms(members).map(|terms| (section.calls(members), &terms.packed));
        self.sections.sort_unstable_by(|one, other| terms(one).cmp(&terms(other)));
        false
    }

    /// The records in a reply that answers exactly what was asked; `None` if it does not.
    pub(super) fn records<'a>(&self, reply: &'a [u8], members: &Members) -> Option<&'a [u8]> {
        let all = self.number.strip(reply)?;
        let (mut rest, mut sections) = (all, self.sections.iter());
        let fit = sections.all(|section| records::skip(&mut rest, section.calls(members)).is_some());
        let fit = fit && rest.is_empty();
        fit.then_some(all)
    }

    /// Hands [records](Self::records) to the callers. Those that were put off stay in their
    /// sections.
    pub(super) fn answer(&mut self, mut records: &[u8], members: &mut Members, wakers: &mut Vec<Waker>) {
        for section in &mut self.sections {
            let sharing = section.sharing(members);
            while !section.members.is_empty() {
                match records::next(&mut records) {
                    Some(BatchRecord::Verdict(record, calls)) => {
                        let last = record.verdict();
                        let callers = if sharing == SectionSharing::Answer { section.members.len } else { calls };
                        for index in 0..callers {
                            let verdict = nth(last, index, callers, sharing);
                            wakers.extend(members.answer_first(&mut section.members, Ok(verdict)));
                        }
                    }
                    Some(BatchRecord::Later(_)) => break,
                    Some(BatchRecord::Error(message)) => {
                        let error = records::error(message);
                        let why = || error.clone().map_or_else(unreadable, CallError::Server);
                        members.fail(&mut section.members, why, wakers);
                    }
                    None => members.fail(&mut section.members, unreadable, wakers),
                }
            }
        }
    }
}

/// The verdict on one of several callers that share one. If they are admitted, what remains is more
/// for each than for those after it. The ticket of `last` is that of the first.
fn nth(last: Verdict, index: usize, callers: usize, sharing: SectionSharing) -> Verdict {
    let SectionSharing::Calls { counts_tickets } = sharing else { return last };
    if !last.allowed {
        return last;
    }
    let count = |callers: usize| u64::try_from(callers).unwrap_or(u64::MAX);
    let ticket = if counts_tickets { last.ticket + count(index) } else { last.ticket };
    Verdict { remaining: last.remaining + count(callers - 1 - index), ticket, ..last }
}

/// The call was answered, but not with what a script can write.
pub(crate) fn unreadable() -> CallError {
    CallError::Lost(errors::unexpected_reply())
}
