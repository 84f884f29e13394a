//! `count`: which outcomes count. If outcomes decide, a call is reserved before the body, and given
//! back after an outcome that does not count.

use quote::ToTokens as _;
use syn::{Expr, ExprPath, Lit};

use crate::check::values::constant;
use crate::check::values::keywords::Keywords;
use crate::literal::bare;
use crate::parse::arguments::Argument;

/// The outcomes that count.
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

pub(crate) fn read(argument: &Argument) -> Result<Count, String> {
    Err(match bare(&argument.value) {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(_) => return OUTCOMES.read(argument).map(|count| count()),
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
        Expr::Path(ExprPath { path, .. })
            if ["all", "ok", "err", "Ok", "Err"]
                .iter()
                .any(|word| path.is_ident(word)) =>
        {
            let word = path.to_token_stream().to_string().to_lowercase();
            format!("an outcome is a string: write `count = \"{word}\"`")
        }
        Expr::Closure(closure) if constant::is_false(&closure.body) => {
            "no outcome counts, so no call is ever refused: write which do, as in \
             `count = \"err\"`, or leave the attribute out"
                .to_owned()
        }
        _ => {
            return Ok(Count::By(argument.value.clone()));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Result<Count, String> {
        read(&Argument::of(text))
    }

    #[test]
    fn count_takes_keywords_closures_and_paths() {
        OUTCOMES.assert_synonyms_are_sound();
        assert!(matches!(said("\"all\""), Ok(Count::All)));
        assert!(matches!(said("\"ok\""), Ok(Count::Ok)));
        assert!(matches!(said("\"err\""), Ok(Count::Err)));
        assert!(matches!(
            said("|r| matches!(r, Err(E::Bad))"),
            Ok(Count::By(_))
        ));
        assert!(matches!(said("Result::is_err"), Ok(Count::By(_))));
        assert!(matches!(said("|_| true"), Ok(Count::By(_))));
    }
}
