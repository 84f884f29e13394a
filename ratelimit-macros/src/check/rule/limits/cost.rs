//! `cost`: one that is written out must fit into limits that are.

use crate::check::rule::limits::Limits;
use crate::check::values::number::Number;
use crate::diagnostics::Diagnostics;
use crate::parse::arguments::Argument;

/// What a call may weigh at most where each unit is kept by itself.
pub(crate) const MOST_IN_LOG: u64 = 1_000;

/// Reports a `cost`, the value of `argument`, that no call could pay.
pub(crate) fn must_fit(
    cost: &Number,
    argument: &Argument,
    limits: &Limits,
    is_log: bool,
    diagnostics: &mut Diagnostics,
) {
    let Number::Fixed(cost) = cost else { return };
    if is_log && *cost > MOST_IN_LOG && limits.policy.is_none() {
        let message = format!(
            "a call weighs at most {MOST_IN_LOG} in a sliding window, which keeps each unit by itself: write `algorithm = \
             \"token_bucket\"` or \"sliding_counter\", which count any number"
        );
        return diagnostics.error(&argument.value, message);
    }
    let (most, what) = match limits.burst {
        Some(burst) => (Some(burst), "burst"),
        None => (limits.literal_maxima().min(), "limit"),
    };
    if let Some(most) = most.filter(|most| cost > most) {
        let message = format!("a cost of {cost} is above the {what} of {most}: no call would ever be admitted");
        diagnostics.error(&argument.value, message);
    }
}
