//! `when` and `shadow`: expressions that are true or false. A `when` that is never true would limit
//! nothing: it is an error.

use syn::{Expr, Lit};

use crate::check::values::constant;
use crate::diagnostics::Diagnostics;
use crate::literal::as_literal;
use crate::parse::arguments::Argument;

/// Reports a literal other than `true` and `false`.
pub(crate) fn must_be_one(
    argument: Option<&Argument>,
    example: &str,
    diagnostics: &mut Diagnostics,
) {
    let Some(Argument { name, value }) = argument else {
        return;
    };
    if !matches!(as_literal(value), None | Some(Lit::Bool(_))) {
        let message =
            format!("`{name}` is a condition: write one over the arguments, as in `{example}`");
        diagnostics.error(value, message);
    }
}

/// Reports a `when` that is false for every call.
pub(crate) fn must_be_possible(when: Option<&Argument>, diagnostics: &mut Diagnostics) {
    if let Some(Argument { value, .. }) = when
        && constant::is_false(value)
    {
        let message = "this is never true, so no call is limited: write a condition over the \
            arguments, as in `when = !user.is_admin`, or leave the attribute out";
        diagnostics.error(value, message);
    }
}

/// The shadow mode, in which refusals are only recorded.
pub(crate) enum Shadow {
    Off,
    On,
    If(Expr),
}

/// The value of `shadow`.
pub(crate) fn shadow(argument: Option<&Argument>) -> Shadow {
    let Some(Argument { value, .. }) = argument else {
        return Shadow::Off;
    };
    match as_literal(value) {
        Some(Lit::Bool(on)) if on.value => Shadow::On,
        Some(Lit::Bool(_)) => Shadow::Off,
        _ => Shadow::If(value.clone()),
    }
}
