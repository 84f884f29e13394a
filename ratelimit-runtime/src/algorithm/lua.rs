//! [`Lua`]: the script of an algorithm, and how its common answer reads.

use crate::rule::Limit;

/// The script of an algorithm.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lua {
    /// All of it, of which the body is the file `script.lua` of the algorithm.
    pub(crate) source: &'static str,
    /// The meaning of a lone number, which is below 2⁵³, for a first limit at the time of the
    /// decision: the remaining cost, and the time until the limit is whole again, in microseconds.
    pub(crate) number: fn(&Limit, u64, u64) -> (u64, u64),
}
