//! `cost`: one that is written out must fit into limits that are.

use crate::check::rule::limits::Limits;
use crate::check::values::number::Number;
use crate::diagnostics::Diagnostics;
use crate::parse::argument::Argument;

/// Reports a `cost`, the value of `argument`, that no call could pay.
pub(crate) fn must_fit(cost: &Number, argument: &Argument, limits: &Limits, diagnostics: &mut Diagnostics) {
    let Number::Fixed(cost) = cost else { return };
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
