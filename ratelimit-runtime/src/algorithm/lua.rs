//! [`Lua`]: the script of an algorithm, and how its common answer reads.

use crate::rule::Limit;

/// The script of an algorithm. The file is the body of the function `decide` that the scripts' head
/// and tail call for each key and question.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lua {
    pub(crate) body: &'static str,
    /// Whether its keys are strings, whose values are read all at once.
    pub(crate) reads: bool,
    /// The meaning of a lone number, which is below 2⁵³, for a first limit at the time of the
    /// decision: the remaining cost, and the time until the limit is whole again, in microseconds.
    pub(crate) number: fn(&Limit, u64, u64) -> (u64, u64),
}
