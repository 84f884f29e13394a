//! Expressions in the attribute must neither wait nor leave the function.

use syn::{Error, Expr};

use crate::check::values::exits::{self, Kind};
use crate::diagnostics::Diagnostics;
use crate::literal::bare;

/// Reports every `.await` and `return` of `expr`, the value of argument `name`, every `?` that
/// cannot leave the function there, and a closure where a value is meant.
pub(crate) fn check(name: &str, expr: &Expr, diagnostics: &mut Diagnostics) {
    let before_the_limit = BEFORE_THE_LIMIT.contains(&name);
    if before_the_limit && matches!(bare(expr), Expr::Closure(_)) {
        let message = format!(
            "`{name}` takes no closure: write its expression alone, which sees the function's \
             arguments"
        );
        diagnostics.error(expr, message);
    }
    // A macro that may hide an exit is kept in a closure, which a `?` beside it could not leave.
    let beside_macro = is_hidden(expr);
    for exit in exits::of_expr(expr) {
        let (what, instead) = match exit.kind {
            Kind::Wait => (
                ".await",
                "it is evaluated without waiting; pass the awaited value as an argument",
            ),
            Kind::Try if before_the_limit && !beside_macro => continue,
            Kind::Try if before_the_limit => (
                "?",
                "a macro beside it may hide another way out; call that in a function, and the \
                 function here",
            ),
            Kind::Return if before_the_limit => (
                "return",
                "only an error may leave the function here, as in `tenant(request)?`",
            ),
            Kind::Try => ("?", NO_EXIT),
            Kind::Return => ("return", NO_EXIT),
            Kind::Macro => continue,
        };
        diagnostics.push(Error::new(
            exit.at,
            format!("`{what}` cannot be used in `{name}`: {instead}"),
        ));
    }
}

/// The arguments that are evaluated before the limit is asked. An error that leaves the function
/// there has charged nothing, and the body has not run.
const BEFORE_THE_LIMIT: [&str; 8] = [
    "when",
    "limiter",
    "max",
    "policy",
    "concurrent",
    "cost",
    "shadow",
    "key",
];

const NO_EXIT: &str = "the expression cannot leave the function; give it a value in every case";

/// `true` if `expr` calls a macro that only the compiler can expand.
pub(crate) fn is_hidden(expr: &Expr) -> bool {
    exits::of_expr(expr)
        .iter()
        .any(|exit| exit.kind == Kind::Macro)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn errors(text: &str) -> Vec<String> {
        errors_in("key", text)
    }

    fn errors_in(name: &str, text: &str) -> Vec<String> {
        let mut diagnostics = Diagnostics::default();
        check(name, &syn::parse_str(text).unwrap(), &mut diagnostics);
        diagnostics.messages()
    }

    #[test]
    fn a_question_mark_may_return_before_the_check() {
        for text in [
            "a?",
            "(a, b(c?))",
            "format!(\"{}\", f(g?))",
            "matches!(a?, B)",
            "{ let a = b?; a }",
        ] {
            for name in BEFORE_THE_LIMIT {
                assert!(errors_in(name, text).is_empty(), "{name} = {text}");
            }
            for name in ["count", "actual_cost", "on_refused"] {
                assert!(
                    errors_in(name, text)
                        .iter()
                        .all(|e| e.contains("cannot leave the function")),
                    "{name} = {text}"
                );
                assert_eq!(errors_in(name, text).len(), 1, "{name} = {text}");
            }
        }
    }

    #[test]
    fn macros_of_others_hide_control_flow() {
        for (text, hidden) in [
            ("mine!(a)", true),
            ("{ mine!(a); b }", true),
            ("format!(\"{a}\")", false),
            ("std::matches!(a, B)", false),
            ("matches!(a.await, B if c)", true),
        ] {
            assert_eq!(is_hidden(&syn::parse_str(text).unwrap()), hidden, "{text}");
        }
    }

    #[test]
    fn control_flow_within_an_expression_is_accepted() {
        for text in [
            "x.map(|x| { return x })",
            "ready(async { f().await })",
            "loop { break 1; }",
            "{ fn g() -> u8 { return 1 } g() }",
            "vec![ready(async { f().await? })]",
            "mine!(T: ?Sized => a)",
        ] {
            assert!(errors(text).is_empty(), "{text}: {:?}", errors(text));
        }
    }
}
