//! `count`: which outcomes count.

use syn::{Expr, ExprPath, Lit};

use crate::check::values::constant;
use crate::check::values::keywords::Keywords;
use crate::diagnostics::Diagnostics;
use crate::literal::bare;
use crate::parse::arguments::Argument;

/// Which outcomes count.
pub(crate) enum Count {
    All,
    Ok,
    Err,
    /// The outcomes for which this function returns true.
    By(Expr),
    /// All outcomes, each by the cost that this function gives.
    ByCost(Expr),
}

impl Count {
    /// `true` if the outcome decides whether the call counts, or its cost.
    pub(crate) fn reserves(&self) -> bool {
        !matches!(self, Self::All)
    }
}

const OUTCOMES: Keywords<fn() -> Count> = Keywords {
    argument: "count",
    noun: "outcome",
    values: &[
        ("all", || Count::All),
        ("ok", || Count::Ok),
        ("err", || Count::Err),
    ],
    synonyms: &[
        ("all", &["any", "every", "always"]),
        ("ok", &["success", "successes"]),
        ("err", &["error", "errors", "failed", "failure", "failures"]),
    ],
    or: Some("a closure over the result"),
};

pub(crate) fn read(argument: &Argument, diagnostics: &mut Diagnostics) -> Option<Count> {
    let value = bare(&argument.value);
    let message = match value {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(_) => return OUTCOMES.read(argument, diagnostics).map(|count| count()),
            Lit::Int(number) => {
                let digits = number.base10_digits();
                format!(
                    "`count` says which outcomes count: for a limit write `max = {digits}`, for \
                     the weight of a call `cost = {digits}`"
                )
            }
            _ => format!(
                "`count` says which outcomes count: write {}",
                OUTCOMES.advice()
            ),
        },
        Expr::Path(ExprPath { path, .. }) if path.is_ident("Ok") => {
            "an outcome is a string: write `count = \"ok\"`".to_owned()
        }
        Expr::Path(ExprPath { path, .. }) if path.is_ident("Err") => {
            "an outcome is a string: write `count = \"err\"`".to_owned()
        }
        Expr::Closure(closure) if constant::is_false(&closure.body) => {
            "no outcome counts, so no call is ever refused: write which do, as in \
             `count = \"err\"`, or leave the attribute out"
                .to_owned()
        }
        _ => {
            return Some(Count::By(argument.value.clone()));
        }
    };
    diagnostics.error(value, message);
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::values::keywords::tests::said;

    #[test]
    fn count_takes_keywords_closures_and_paths() {
        OUTCOMES.assert_synonyms_are_sound();
        assert!(matches!(said(read, "\"all\""), Ok(Count::All)));
        assert!(matches!(said(read, "\"ok\""), Ok(Count::Ok)));
        assert!(matches!(said(read, "\"err\""), Ok(Count::Err)));
        assert!(matches!(
            said(read, "|r| matches!(r, Err(E::Bad))"),
            Ok(Count::By(_))
        ));
        assert!(matches!(said(read, "Result::is_err"), Ok(Count::By(_))));
        assert!(matches!(said(read, "|_| true"), Ok(Count::By(_))));
    }
}
