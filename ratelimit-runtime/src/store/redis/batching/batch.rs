//! [`Batch`]: one call of a script that carries the charges of several callers.
#![allow(clippy::indexing_slicing, reason = "an index into a slab is held by what removes its value")]

use std::task::Waker;

use slab::Slab;
use smallvec::SmallVec;

use super::charge::ChargeTerms;
use super::members::{MemberList, Members};
use super::records::{self, BatchRecord};
use crate::store::Verdict;
use crate::store::redis::errors;
use crate::store::redis::scripts::number::Number;
use crate::store::redis::scripts::protocol::CALLS;
use crate::store::redis::scripts::script::Script;
use crate::store::redis::scripts::script_call::ScriptCall;
use crate::store::redis::wire::commands::CallError;

/// How many sections and how many callers one call has at most: it keeps the server for less than
/// 250 µs.
pub(crate) const MAX_SECTIONS: usize = 64;
pub(super) const MAX_CALLERS: usize = 512;

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
}

impl Section {
    fn terms<'a>(&self, members: &'a Members) -> Option<&'a ChargeTerms> {
        self.members.first().map(|first| members.terms(first))
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
        self.sections.last().is_some_and(|last| last.key == key && terms.is_unit && last.terms(members) == Some(terms))
    }

    /// Writes the call to `outgoing`.
    pub(super) fn write(&self, script: &Script, keys: &Slab<ChargedKey>, members: &Members, outgoing: &mut Vec<u8>) {
        let mut call = ScriptCall::begin(outgoing, script, self.in_full, self.sections.len());
        for section in &self.sections {
            call.argument(&keys[section.key].bytes);
        }
        let first = self.sections.first().and_then(|section| section.terms(members));
        call.head(first.and_then(|terms| terms.now), self.number);
        for section in &self.sections {
            let Some(terms) = section.terms(members) else { continue };
            let calls = u16::try_from(section.members.len).unwrap_or(u16::MAX).to_le_bytes();
            if let Some(place) = call.argument(&terms.packed).get_mut(CALLS) {
                place.copy_from_slice(&calls);
            }
        }
    }

    /// The records in a reply that answers exactly what was asked; `None` if it does not.
    pub(crate) fn records<'a>(&self, reply: &'a [u8]) -> Option<&'a [u8]> {
        let all = self.number.strip(reply)?;
        let (mut rest, mut sections) = (all, self.sections.iter());
        let fit = sections.all(|section| records::skip(&mut rest, section.members.len).is_some()) && rest.is_empty();
        fit.then_some(all)
    }

    /// Hands [records](Self::records) to the callers. Those that were put off stay in their
    /// sections.
    pub(super) fn answer(&mut self, mut records: &[u8], members: &mut Members, wakers: &mut Vec<Waker>) {
        for section in &mut self.sections {
            let counts_tickets = section.terms(members).is_some_and(|terms| terms.counts_tickets);
            while !section.members.is_empty() {
                match records::next(&mut records) {
                    Some(BatchRecord::Verdict(last, callers)) => {
                        for index in 0..callers {
                            let verdict = nth(last, index, callers, counts_tickets);
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
fn nth(last: Verdict, index: usize, callers: usize, counts_tickets: bool) -> Verdict {
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
