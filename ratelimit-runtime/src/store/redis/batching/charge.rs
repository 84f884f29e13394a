//! [`KeyCharge`]: one charge of a key, which may share a call with others.

use std::time::Instant;

use crate::store::redis::scripts::number::Number;
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
    /// Whether the cost is 1. Then one verdict can answer several callers.
    pub(crate) is_unit: bool,
    /// Whether tickets count up from one admission to the next; else all admissions of one verdict
    /// have the same.
    pub(crate) counts_tickets: bool,
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
