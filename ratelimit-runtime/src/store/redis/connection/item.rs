//! [`Item`]: one decision that is asked for. It may share a call with others.

use std::time::Instant;

use super::question;
use crate::store::redis::number::Number;
use crate::store::redis::protocol;
use crate::store::redis::script::Script;
use crate::store::redis::script_call::Call;

/// What a caller asks.
#[derive(Debug)]
pub(in super::super) struct Item<'a> {
    pub(in super::super) script: &'static Script,
    pub(in super::super) key: &'a [u8],
    pub(in super::super) question: Question,
    pub(in super::super) timeout_at: Option<Instant>,
}

/// What callers have to agree on to be asked for as one.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) struct Question {
    pub(in super::super) packed: protocol::Question,
    /// The caller's time in microseconds; `None` for the server's.
    pub(in super::super) now: Option<u64>,
    /// Whether it weighs 1. Then one verdict can answer several.
    pub(in super::super) is_unit: bool,
    /// Whether each admission has the ticket after the last one's; else all of one verdict have the same.
    pub(in super::super) counts_tickets: bool,
}

impl Clone for Question {
    fn clone(&self) -> Self {
        // Copied as a whole: a clone of a `SmallVec` goes byte by byte.
        Self { packed: protocol::Question::from_slice(&self.packed), ..*self }
    }
}

impl Item<'_> {
    /// As a question of its own, which shares its call with nobody.
    pub(super) fn alone(&self, in_full: bool) -> question::Question {
        let call = |number: Number| {
            let mut packed = Vec::new();
            let mut call = Call::begin(&mut packed, self.script, in_full, 1);
            call.argument(self.key);
            call.head(self.question.now, number);
            call.argument(&self.question.packed);
            packed
        };
        question::Question::script(call, protocol::is_verdict).until(self.timeout_at)
    }
}
