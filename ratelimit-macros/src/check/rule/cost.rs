//! `cost` and `actual_cost`: the cost of a call, known before it or by its result. An actual cost
//! that does not depend on the result, or that no limit can keep, is an error.

use syn::{Expr, ExprClosure, Lit};

use crate::check::rule::limits::Limits;
use crate::check::values::constant;
use crate::check::values::number::Number;
use crate::diagnostics::Diagnostics;
use crate::literal::bare;
use crate::parse::arguments::{Argument, Arguments};

/// The highest cost of one call where each unit is kept by itself.
const MOST_IN_LOG: u64 = 1_000;

const EXAMPLE: &str = "`actual_cost = |result| …`";

/// A closure or path that takes the result, and gives the cost of the call.
pub(crate) fn actual(argument: &Argument) -> Result<Expr, String> {
    let value = bare(&argument.value);
    let fault = match value {
        Expr::Lit(literal) => Some(match &literal.lit {
            Lit::Int(number) => known_before(number.base10_digits()),
            _ => format!("`actual_cost` says what a call cost, by its result: write {EXAMPLE}"),
        }),
        Expr::Closure(closure) => fault(closure),
        _ => constant::integer(value).map(|number| known_before(&number.to_string())),
    };
    fault.map_or_else(|| Ok(argument.value.clone()), Err)
}

fn known_before(number: &str) -> String {
    format!("this is known before the call: write `cost = {number}`, and leave `actual_cost` out")
}

/// The mistake in a closure of `actual_cost`; `None` if there is none.
fn fault(closure: &ExprClosure) -> Option<String> {
    if closure.inputs.len() != 1 {
        return Some(format!(
            "the closure is given the result, and nothing else: write {EXAMPLE}"
        ));
    }
    if closure.asyncness.is_some() || matches!(bare(&closure.body), Expr::Async(_)) {
        return Some(format!(
            "the cost is told without waiting: write {EXAMPLE}, without `async`"
        ));
    }
    match constant::integer(&closure.body)? {
        ..=0 => Some(
            "no call is ever charged: say what one weighs, or leave the attribute out".to_owned(),
        ),
        number => Some(format!(
            "every call weighs the same: write `cost = {number}`, and leave `actual_cost` out"
        )),
    }
}

/// Reports a cost in a sliding window whose limits are above the highest cost of one call.
pub(crate) fn must_be_counted(argument: &Argument, limits: &Limits, diagnostics: &mut Diagnostics) {
    if limits.literal_maxima().any(|max| max > MOST_IN_LOG) {
        let message = format!(
            "a sliding window counts at most {MOST_IN_LOG} of the actual cost of a call: write \
             `algorithm = \"token_bucket\"` or \"sliding_counter\", which count any number"
        );
        diagnostics.error(&argument.name, message);
    }
}

/// Reports an `actual_cost` without the estimate that is reserved before the body.
pub(crate) fn must_have_an_estimate(arguments: &Arguments, diagnostics: &mut Diagnostics) {
    if let (Some(actual_cost), None) = (&arguments.actual_cost, &arguments.cost) {
        let message = "`actual_cost` needs an estimate, which is charged before the body: write it \
            as `cost`, or `cost = 1` where nothing is known";
        diagnostics.error(&actual_cost.name, message);
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
    if is_log && *cost > MOST_IN_LOG && limits.policy.is_none() {
        let message = format!(
            "a call weighs at most {MOST_IN_LOG} in a sliding window, which keeps each unit by \
             itself: write `algorithm = \"token_bucket\"` or \"sliding_counter\", which count any \
             number"
        );
        return diagnostics.error(&argument.value, message);
    }
    let (most, what) = match limits.burst {
        Some(burst) => (Some(burst), "burst"),
        None => (limits.literal_maxima().min(), "limit"),
    };
    if let Some(most) = most.filter(|most| cost > most) {
        let message = format!(
            "a cost of {cost} is above the {what} of {most}: no call would ever be admitted"
        );
        diagnostics.error(&argument.value, message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actual_cost_takes_closures_and_paths() {
        for text in [
            "|out| out.tokens",
            "|out: &R| cost(out)",
            "Answer::tokens",
            "|_| TOKENS",
            "tokens(7)",
            "|r| { -r }",
        ] {
            assert!(actual(&Argument::of(text)).is_ok(), "{text}");
        }
    }
}
