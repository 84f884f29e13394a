//! `algorithm`: how calls are counted.

use crate::check::values::keywords::Keywords;
use crate::diagnostics::Diagnostics;
use crate::parse::argument::Argument;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    SlidingWindow,
    SlidingCounter,
    FixedWindow,
    TokenBucket,
    LeakyBucket,
}

const ALGORITHMS: Keywords<Algorithm> = Keywords {
    argument: "algorithm",
    noun: "algorithm",
    values: &[
        ("sliding_window", Algorithm::SlidingWindow),
        ("sliding_counter", Algorithm::SlidingCounter),
        ("fixed_window", Algorithm::FixedWindow),
        ("token_bucket", Algorithm::TokenBucket),
        ("leaky_bucket", Algorithm::LeakyBucket),
    ],
    synonyms: &[
        ("log", "sliding_window"),
        ("sliding", "sliding_window"),
        ("slidinglog", "sliding_window"),
        ("slidingwindowlog", "sliding_window"),
        ("rolling", "sliding_window"),
        ("rollingwindow", "sliding_window"),
        ("slidingwindowcounter", "sliding_counter"),
        ("counter", "fixed_window"),
        ("fixed", "fixed_window"),
        ("fixedcounter", "fixed_window"),
        ("fixedwindowcounter", "fixed_window"),
        ("token", "token_bucket"),
        ("tokens", "token_bucket"),
        ("bucket", "token_bucket"),
        ("leaky", "leaky_bucket"),
        ("gcra", "leaky_bucket"),
    ],
    advice: "\"sliding_window\", \"sliding_counter\", \"fixed_window\", \"token_bucket\" or \"leaky_bucket\"",
};

pub(crate) fn read(argument: &Argument, diagnostics: &mut Diagnostics) -> Option<Algorithm> {
    ALGORITHMS.read(argument, diagnostics)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::check::values::keywords::tests::said;

    #[test]
    fn every_keyword() {
        for (keyword, algorithm) in ALGORITHMS.values {
            assert_eq!(said(read, &format!("\"{keyword}\"")), Ok(*algorithm));
            assert!(ALGORITHMS.advice.contains(&format!("\"{keyword}\"")), "{keyword}");
        }
        ALGORITHMS.assert_synonyms_are_sound();
    }

    #[test]
    fn refused() {
        for (text, part) in [
            ("\"gcra\"", "did you mean \"leaky_bucket\"?"),
            ("\"GCRA\"", "did you mean \"leaky_bucket\"?"),
            ("\"sliding_log\"", "did you mean \"sliding_window\"?"),
            ("\"sliding\"", "did you mean \"sliding_window\"?"),
            ("\"fixed\"", "did you mean \"fixed_window\"?"),
            ("\"TokenBucket\"", "did you mean \"token_bucket\"?"),
            ("\"token-bucket\"", "did you mean \"token_bucket\"?"),
            ("\"tokn_bucket\"", "did you mean \"token_bucket\"?"),
            ("\"quantum\"", "write \"sliding_window\", \"sliding_counter\""),
            ("Algorithm::TokenBucket", "`algorithm` is a string: write"),
        ] {
            let error = said(read, text).unwrap_err();
            assert!(error.starts_with("unknown algorithm") || error.starts_with("`algorithm`"), "{error}");
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
