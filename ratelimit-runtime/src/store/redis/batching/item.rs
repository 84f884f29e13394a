//! [`Item`]: one decision that is asked for. It may share a call with others.

use std::time::Instant;

use crate::store::redis::scripts::number::Number;
use crate::store::redis::scripts::protocol;
use crate::store::redis::scripts::script::Script;
use crate::store::redis::scripts::script_call::Call;
use crate::store::redis::wire::question;

/// What a caller asks.
#[derive(Debug)]
pub(crate) struct Item<'a> {
    pub(crate) script: &'static Script,
    pub(crate) key: &'a [u8],
    pub(crate) question: Question,
    pub(crate) timeout_at: Option<Instant>,
}

/// What callers have to agree on to be asked for as one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) packed: protocol::Question,
    /// The caller's time in microseconds; `None` for the server's.
    pub(crate) now: Option<u64>,
    /// Whether it weighs 1. Then one verdict can answer several.
    pub(crate) is_unit: bool,
    /// Whether each admission has the ticket after the last one's; else all of one verdict have the same.
    pub(crate) counts_tickets: bool,
}

impl Clone for Question {
    fn clone(&self) -> Self {
        // Copied as a whole: a clone of a `SmallVec` goes byte by byte.
        Self { packed: protocol::Question::from_slice(&self.packed), ..*self }
    }
}

impl Item<'_> {
    /// As a question of its own, which shares its call with nobody.
    pub(crate) fn alone(&self, in_full: bool) -> question::Question {
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
