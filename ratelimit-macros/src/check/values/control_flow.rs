//! Expressions in the attribute must neither wait nor leave the function: the check would not be
//! within its timeout, or a call would pass without one.
//!
//! Before the check an error may leave by `?`, because nothing is charged yet.

use syn::{Error, Expr};

use crate::check::values::exits::{self, Kind};
use crate::diagnostics::Diagnostics;
use crate::literal::bare;
use crate::parse::arguments::{Argument, Arguments};

/// Reports every `.await` and `return` in the arguments, every `?` that cannot leave the function
/// where it stands, and a closure where a value is meant.
pub(crate) fn check(arguments: &Arguments, diagnostics: &mut Diagnostics) {
    let Arguments {
        when,
        limiter,
        max,
        policy,
        concurrent,
        cost,
        shadow,
        key,
        on_refused,
        count,
        actual_cost,
        ..
    } = arguments;
    // An error that leaves the function there has charged nothing, and the body has not run.
    let before_the_limit = [when, limiter, max, policy, concurrent, cost, shadow, key];
    for argument in before_the_limit.into_iter().flatten() {
        check_one(argument, true, diagnostics);
    }
    for argument in [on_refused, count, actual_cost].into_iter().flatten() {
        check_one(argument, false, diagnostics);
    }
}

fn check_one(argument: &Argument, before_the_limit: bool, diagnostics: &mut Diagnostics) {
    let Argument { name, value: expr } = argument;
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

    fn errors(text: &str, before_the_limit: bool) -> Vec<String> {
        let mut diagnostics = Diagnostics::default();
        check_one(&Argument::of(text), before_the_limit, &mut diagnostics);
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
            assert_eq!(errors(text, true), [""; 0], "{text}");
            let errors = errors(text, false);
            assert_eq!(errors.len(), 1, "{text}");
            assert!(
                errors.concat().contains("cannot leave the function"),
                "{text}"
            );
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
            assert_eq!(errors(text, true), [""; 0], "{text}");
        }
    }
}
