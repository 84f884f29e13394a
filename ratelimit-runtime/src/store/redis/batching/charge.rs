//! [`KeyCharge`]: one charge of a key, which may share a call with others.

use std::time::Instant;

use crate::store::Request;
use crate::store::redis::scripts::layout::LogLayout;
use crate::store::redis::scripts::number::Number;
use crate::store::redis::scripts::operation::Operation;
use crate::store::redis::scripts::protocol;
use crate::store::redis::scripts::script::Script;
use crate::store::redis::scripts::script_call::ScriptCall;
use crate::store::redis::wire::commands::Commands;

/// What a caller wants to be charged.
#[derive(Debug)]
pub(crate) struct KeyCharge<'a> {
    pub(crate) script: &'static Script,
    pub(crate) key: &'a [u8],
    pub(crate) terms: ChargeTerms,
    pub(crate) timeout_at: Option<Instant>,
}

/// All but the key. Charges of one key with equal terms are asked for as one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ChargeTerms {
    pub(crate) packed: protocol::Question,
    /// The caller's time in microseconds; `None` for the server's.
    pub(crate) now: Option<u64>,
    pub(crate) sharing: SectionSharing,
}

/// How callers of one key with equal terms are asked for together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SectionSharing {
    /// Not at all: each is a section of its own.
    Never,
    /// As so many calls, which are decided one after the other. One verdict can answer several.
    Calls {
        /// Whether tickets count up from one admission to the next; else all admissions of one
        /// verdict have the same.
        counts_tickets: bool,
    },
    /// As one call, whose answer is that of all: nothing is changed by it.
    Answer,
}

impl ChargeTerms {
    pub(crate) fn new(operation: Operation, request: &Request<'_>, log: Option<LogLayout>, now: Option<u64>) -> Self {
        let sharing = match operation {
            Operation::Acquire | Operation::Reserve if request.cost() == 1 => {
                SectionSharing::Calls { counts_tickets: request.algorithm().row().is_log }
            }
            Operation::Peek => SectionSharing::Answer,
            _ => SectionSharing::Never,
        };
        Self { packed: protocol::question(operation, request, log, now), now, sharing }
    }
}

impl Clone for ChargeTerms {
    fn clone(&self) -> Self {
        // Copied as a whole: a clone of a `SmallVec` goes byte by byte.
        Self { packed: protocol::Question::from_slice(&self.packed), ..*self }
    }
}

impl KeyCharge<'_> {
    /// As a call of its own, which is shared with no other. `in_full` sends the script along.
    pub(crate) fn alone(&self, in_full: bool) -> Commands {
        let call = |number: Number| {
            let mut packed = Vec::new();
            let mut call = ScriptCall::begin(&mut packed, self.script, in_full, 1, 1);
            call.argument(self.key);
            call.head(number, self.terms.now);
            call.argument(&self.terms.packed);
            packed
        };
        Commands::script(call, protocol::is_verdict).until(self.timeout_at)
    }
}
