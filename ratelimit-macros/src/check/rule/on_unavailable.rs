//! `on_unavailable`: what happens to a call while the store cannot answer.

use crate::check::values::keywords::Keywords;
use crate::diagnostics::Diagnostics;
use crate::parse::argument::Argument;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnUnavailable {
    Allow,
    Deny,
    Local,
}

const ANSWERS: Keywords<OnUnavailable> = Keywords {
    argument: "on_unavailable",
    noun: "answer",
    values: &[("allow", OnUnavailable::Allow), ("deny", OnUnavailable::Deny), ("local", OnUnavailable::Local)],
    synonyms: &[("open", "allow"), ("closed", "deny"), ("memory", "local")],
    advice: "\"allow\", \"deny\" or \"local\"",
};

pub(crate) fn read(argument: &Argument, diagnostics: &mut Diagnostics) -> Option<OnUnavailable> {
    ANSWERS.read(argument, diagnostics)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::check::values::keywords::tests::said;

    #[test]
    fn every_keyword() {
        for (keyword, answer) in ANSWERS.values {
            assert_eq!(said(read, &format!("\"{keyword}\"")), Ok(*answer));
            assert!(ANSWERS.advice.contains(&format!("\"{keyword}\"")), "{keyword}");
        }
        ANSWERS.assert_synonyms_are_sound();
    }

    #[test]
    fn refused() {
        for (text, part) in [
            ("\"alow\"", "did you mean \"allow\"?"),
            ("\"memory\"", "did you mean \"local\"?"),
            ("\"banana\"", "unknown answer \"banana\": write \"allow\", \"deny\" or \"local\""),
            ("Deny", "write \"allow\", \"deny\" or \"local\""),
        ] {
            let error = said(read, text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
