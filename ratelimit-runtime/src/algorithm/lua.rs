//! [`Lua`]: the script of an algorithm, and how its common answer reads.

use crate::rule::Limit;

/// What an algorithm's folder says of its script. The file is the body of the function `decide`
/// that the scripts' head and tail call for each key and question.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lua {
    pub(crate) body: &'static str,
    /// Whether its keys are strings, whose values are read all at once.
    pub(crate) reads: bool,
    /// What a lone number says of a first limit: what remains, and the time until it is whole
    /// again, in microseconds. The number is below 2⁵³.
    pub(crate) number: fn(&Limit, u64) -> (u64, u64),
}
