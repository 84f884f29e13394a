//! `cost`: one that is written out must fit into limits that are.

use crate::check::rule::limits::Limits;
use crate::check::values::number::Number;
use crate::diagnostics::Diagnostics;
use crate::parse::argument::Argument;

/// What a call may weigh at most where each unit is kept by itself.
pub(crate) const MOST_IN_LOG: u64 = 1_000;

/// The `max` of each limit that is written out.
pub(crate) fn literal_maxima(limits: &Limits) -> Vec<u64> {
    match limits {
        Limits::One { max: Number::Fixed(max), .. } => vec![*max],
        Limits::Several(limits) => limits.iter().map(|limit| limit.max).collect(),
        Limits::One { .. } | Limits::Policy(_) | Limits::None => Vec::new(),
    }
}

/// Reports a `cost`, the value of `argument`, that no call could pay.
pub(crate) fn must_fit(
    cost: &Number,
    argument: &Argument,
    limits: &Limits,
    is_log: bool,
    diagnostics: &mut Diagnostics,
) {
    let Number::Fixed(cost) = cost else { return };
    if is_log && *cost > MOST_IN_LOG && !matches!(limits, Limits::Policy(_)) {
        let message = format!(
            "a call weighs at most {MOST_IN_LOG} in a sliding window, which keeps each unit by itself: write `algorithm = \
             \"token_bucket\"` or \"sliding_counter\", which count any number"
        );
        return diagnostics.error(&argument.value, message);
    }
    let (most, what) = match limits {
        Limits::One { burst: Some(burst), .. } => (Some(*burst), "burst"),
        Limits::One { max: Number::Fixed(max), .. } => (Some(*max), "limit"),
        Limits::Several(limits) => (limits.iter().map(|limit| limit.max).min(), "limit"),
        Limits::One { .. } | Limits::Policy(_) | Limits::None => (None, ""),
    };
    if let Some(most) = most.filter(|most| cost > most) {
        let message = format!("a cost of {cost} is above the {what} of {most}: no call would ever be admitted");
        diagnostics.error(&argument.value, message);
    }
}
