//! `on_refused`: how a refusal leaves the function.

use syn::Expr;

use crate::check::function::output::Output;
use crate::check::values::condition::{self, Shadow};
use crate::diagnostics::Diagnostics;
use crate::literal::{as_literal, bare};
use crate::parse::arguments::{Argument, Arguments};

/// The way in which a refused call leaves the function.
pub(crate) enum Refusal {
    /// No call is refused: every rule is in shadow mode.
    Never,
    /// With the error, converted to the return type.
    ByType,
    /// With the value of `on_refused`.
    By(Expr),
}

/// The one refusal of a stack whose function gives `output`.
pub(crate) fn read(
    attributes: Vec<Arguments>,
    output: &Output,
    diagnostics: &mut Diagnostics,
) -> Refusal {
    // `shadow` of a policy wins over the argument.
    let has_policy = attributes
        .iter()
        .any(|arguments| arguments.policy.is_some());
    let without_policy = attributes
        .iter()
        .any(|arguments| !matches!(condition::shadow(arguments.shadow.as_ref()), Shadow::On));
    let refuses = has_policy || without_policy;
    let in_spite = if without_policy {
        ""
    } else {
        ", and a policy may say that calls are refused in spite of `shadow`"
    };
    let mut on_refused: Option<Argument> = None;
    for given in attributes
        .into_iter()
        .filter_map(|arguments| arguments.on_refused)
    {
        if as_literal(&given.value).is_some() || is_a_result(&given.value) {
            let message = "`on_refused` makes the returned value of the error: write a closure, \
                `on_refused = |error| …`, or the path of a function";
            diagnostics.error(&given.value, message);
        }
        if on_refused.is_some() {
            let message =
                "stacked attributes share one guard: give `on_refused` once, for all of them";
            diagnostics.error(&given.name, message);
        } else {
            on_refused = Some(given);
        }
    }
    match on_refused {
        Some(given) if !refuses => {
            diagnostics.error(
                &given.name,
                "`on_refused` is never used: with `shadow` no call is refused",
            );
            Refusal::Never
        }
        Some(given) => Refusal::By(given.value),
        None if !refuses => Refusal::Never,
        None => {
            if let Output::Never(tokens) = output {
                let or_shadow = if has_policy { "" } else { ", or `shadow`" };
                let message = format!(
                    "this function never returns, so it cannot carry a refusal{in_spite}: \
                     add `on_refused = |error| panic!(\"{{error}}\")`{or_shadow}"
                );
                diagnostics.error(tokens, message);
            }
            if let Output::Nothing(tokens) = output {
                let message = format!(
                    "this function returns nothing, so it cannot carry a refusal{in_spite}: return \
                     `Result<_, E>` with `E: From<RateLimitError>`, or add \
                     `on_refused = |_error| ()`"
                );
                diagnostics.error(tokens, message);
            }
            Refusal::ByType
        }
    }
}

/// `true` if `expr` is a return value, as `Err(Limited)`, where a function that makes one is
/// expected. The names alone are functions.
fn is_a_result(expr: &Expr) -> bool {
    let is = |expr: &Expr, names: &[&str]| match bare(expr) {
        Expr::Path(path) => names.iter().any(|name| path.path.is_ident(name)),
        _ => false,
    };
    match bare(expr) {
        Expr::Call(call) => is(&call.func, &["Ok", "Err", "Some"]),
        path => is(path, &["None"]),
    }
}
