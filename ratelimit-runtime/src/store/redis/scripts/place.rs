//! Questions about the places of calls in flight, and what is answered; `places.lua` has the other
//! side.

use std::fmt::Write as _;

use super::protocol::{Question, doubles, record};
use crate::store::{PermitId, PlaceRequest};

/// What is to be done about a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlaceOperation {
    Enter,
    Look,
    Leave,
    Renew,
}

impl PlaceOperation {
    fn number(self) -> u8 {
        match self {
            Self::Enter => 1,
            Self::Look => 3,
            Self::Leave => 4,
            Self::Renew => 10,
        }
    }
}

/// What stands for places where other questions have the number of an algorithm.
const PLACES: u8 = 15;

/// A permit as the member of a sorted set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PermitMember(String);

impl PermitMember {
    pub(crate) fn new(permit: PermitId, place: &PlaceRequest<'_>) -> Self {
        let mut text = String::with_capacity(32);
        let _ = write!(text, "{:016x}.{}.{}", permit.process(), permit.number(), place.lease().as_millis());
        Self(text)
    }
}

/// A question about a place, which is asked once `leaving` have left the key. The permit of `place`
/// comes first; looking leaves it alone.
pub(crate) fn question(operation: PlaceOperation, place: &PlaceRequest<'_>, leaving: &[PermitMember]) -> Question {
    let lease = u64::try_from(place.lease().as_micros()).unwrap_or(u64::MAX);
    let own = [PermitMember::new(place.permit(), place)];
    let members = own.iter().chain(leaving);
    let count = u16::try_from(members.clone().count()).unwrap_or(u16::MAX);
    let mut question = Question::new();
    question.extend_from_slice(&[operation.number(), PLACES << 4, 1, 0, 1, 0, 0]);
    question.extend_from_slice(doubles([place.max().min(crate::rule::Limit::MAX_COUNT), 0, lease]).as_flattened());
    question.extend_from_slice(&count.to_le_bytes());
    for PermitMember(member) in members {
        question.push(u8::try_from(member.len()).unwrap_or(u8::MAX));
        question.extend_from_slice(member.as_bytes());
    }
    question
}

/// What is answered about a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlaceRecord {
    pub(crate) outcome: PlaceOutcome,
    /// How many calls of the key are in flight.
    pub(crate) in_flight: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlaceOutcome {
    /// The place is taken, is free, or was left, as it was asked for.
    Done,
    /// It was taken anew, because the lease had ended.
    EnteredAgain,
    /// No place is free, or there was none to leave.
    Refused,
    /// Nothing is known: a command has failed.
    Failed,
}

/// The first record of a reply, and what follows.
pub(crate) fn place_record(reply: &[u8]) -> Option<(PlaceRecord, &[u8])> {
    let (record, rest) = record(reply)?;
    let verdict = record.verdict();
    let outcome = match (verdict.allowed, verdict.ticket, verdict.retry_after_us) {
        (true, ENTERED_AGAIN, _) => PlaceOutcome::EnteredAgain,
        (true, ..) => PlaceOutcome::Done,
        (false, _, 0) => PlaceOutcome::Refused,
        (false, ..) => PlaceOutcome::Failed,
    };
    (record.calls == 1).then_some((PlaceRecord { outcome, in_flight: verdict.remaining }, rest))
}

const ENTERED_AGAIN: u64 = 2;
