//! `policy`: the name of a policy in the limiter's configuration.

use syn::{Expr, Lit, LitStr};

use crate::check::function::scope::Scope;
use crate::check::values::label;
use crate::diagnostics::Diagnostics;
use crate::literal::{as_literal, bare};
use crate::parse::arguments::Argument;

pub(crate) enum PolicyName {
    /// The name, written out.
    Fixed(LitStr),
    /// An expression, evaluated at each call.
    Computed(Expr),
}

const EXAMPLES: &str =
    "`policy = \"login\"`, or an expression over the arguments, `policy = plan.policy()`";

/// A string literal, or an expression that gives a string.
pub(crate) fn read(
    argument: &Argument,
    scope: &Scope,
    diagnostics: &mut Diagnostics,
) -> Option<PolicyName> {
    let value = bare(&argument.value);
    let message = match as_literal(value) {
        Some(Lit::Str(text)) if is_template(&text.value()) => {
            "the name of a policy is no template: for one that differs from call to call write an \
             expression over the arguments, `policy = plan.policy()`"
                .to_owned()
        }
        Some(Lit::Str(_)) => {
            return label::read(argument, "login", diagnostics).map(PolicyName::Fixed);
        }
        Some(_) => format!("`policy` is a name, which is a string: write {EXAMPLES}"),
        None => match unknown(value, scope) {
            Some(name) => format!(
                "no argument is called `{name}`: the name of a policy is a string, as in \
                 `policy = \"{name}\"`"
            ),
            None => return Some(PolicyName::Computed(argument.value.clone())),
        },
    };
    diagnostics.error(value, message);
    None
}

/// The word that `value` is, if no argument has this name, nor would a constant.
fn unknown(value: &Expr, scope: &Scope) -> Option<String> {
    let Expr::Path(path) = value else { return None };
    let word = path.path.get_ident()?.to_string();
    let is_value = scope.varies(&word) || word.chars().any(char::is_uppercase);
    (!is_value).then_some(word)
}

/// `true` if a policy's name is written as a key template.
fn is_template(name: &str) -> bool {
    [('<', '>'), ('{', '}')].into_iter().any(|(open, close)| {
        name.split_once(open)
            .is_some_and(|(_, rest)| rest.find(close).is_some_and(|end| end > 0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Option<PolicyName> {
        read(
            &Argument::of(text),
            &Scope::default(),
            &mut Diagnostics::default(),
        )
    }

    #[test]
    fn policy_takes_names_and_expressions() {
        assert!(matches!(said("\"login\""), Some(PolicyName::Fixed(_))));
        for text in [
            "plan.policy()",
            "LOGIN",
            "&format!(\"plan-{}\", plan)",
            "plan_of(user)?",
            "match a { _ => \"b\" }",
        ] {
            assert!(
                matches!(said(text), Some(PolicyName::Computed(_))),
                "{text}"
            );
        }
    }
}
