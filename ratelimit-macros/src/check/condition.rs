//! `when` and `shadow`: expressions that are true or false.

use syn::Lit;

use crate::diagnostics::Diagnostics;
use crate::literal::as_literal;
use crate::parse::argument::Argument;

/// Reports a literal that is neither.
pub(crate) fn must_be_one(argument: Option<&Argument>, example: &str, diagnostics: &mut Diagnostics) {
    let Some(Argument { name, value }) = argument else { return };
    let message = match as_literal(value) {
        None | Some(Lit::Bool(_)) => return,
        Some(Lit::Str(text)) if text.value() == "true" || text.value() == "false" => {
            format!("`{name}` is a condition: write `{name} = {}`, without the quotes", text.value())
        }
        Some(_) => format!("`{name}` is a condition: write one over the arguments, as in `{example}`"),
    };
    diagnostics.error(value, message);
}
