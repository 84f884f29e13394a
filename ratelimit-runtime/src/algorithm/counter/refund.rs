//! [`refundable`]: how much of a bucket's charge can be given back.

use std::cmp::Ordering;

use super::arithmetic::{Amount, less};

/// What a charge made at `ticket` may give back, besides that it is at most the level. A bucket has
/// drained `drained` since then; its newest charge was made at `newest`.
///
/// Had the call not come, the level would be lower by its cost, less what would not have drained
/// while the bucket stood empty instead. Since the newest charge nothing was added, so the level
/// alone bounds what that leaves. Since an earlier one the bucket might have stood empty all the
/// time: withholding all that has drained never gives back too much.
pub(crate) fn refundable(charged: Amount, drained: Amount, parts: u64, ticket: u64, newest: u64) -> Amount {
    match ticket.cmp(&newest) {
        Ordering::Less => less(charged, drained, parts),
        Ordering::Equal => charged,
        // Of an earlier life of the key, by a clock that has stepped back since.
        Ordering::Greater => (0, 0),
    }
}
