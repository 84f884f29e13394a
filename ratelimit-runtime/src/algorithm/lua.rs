//! [`Lua`]: the script of an algorithm, and how a lone number in its answer is read.

use crate::rule::Limit;

/// The script of an algorithm.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lua {
    /// The whole script, assembled around the algorithm's file `script.lua`.
    pub(crate) source: &'static str,
    /// Reads an answer that is a lone number, below 2⁵³, for the first limit at the time of the
    /// decision: gives the remaining cost, and the microseconds until the limit is whole again.
    pub(crate) number: fn(&Limit, u64, u64) -> (u64, u64),
}
