//! Arguments whose value is one of a few words: `algorithm`, `count`, `on_unavailable`.

use syn::{Expr, ExprPath, Lit, LitStr};

use crate::args::{Arg, as_str, bare};
use crate::diag::Diagnostics;
use crate::forbidden;
use crate::plan::{Algorithm, Count, OnUnavailable};
use crate::suggest::nearest;

/// The words of an argument, and how messages speak of them.
struct Vocabulary<T: 'static> {
    argument: &'static str,
    noun: &'static str,
    words: &'static [(&'static str, T)],
    /// What other limiters say for one of the words, in lower case without punctuation.
    synonyms: &'static [(&'static str, &'static str)],
    /// All of them, as an instruction.
    advice: &'static str,
}

const ALGORITHMS: Vocabulary<Algorithm> = Vocabulary {
    argument: "algorithm",
    noun: "algorithm",
    words: &[
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

const OUTCOMES: Vocabulary<Outcomes> = Vocabulary {
    argument: "count",
    noun: "outcome",
    words: &[("all", Outcomes::All), ("ok", Outcomes::Ok), ("err", Outcomes::Err)],
    synonyms: &[
        ("any", "all"),
        ("every", "all"),
        ("always", "all"),
        ("success", "ok"),
        ("successes", "ok"),
        ("error", "err"),
        ("errors", "err"),
        ("failed", "err"),
        ("failure", "err"),
        ("failures", "err"),
    ],
    advice: "\"all\", \"ok\", \"err\", or a closure over the result",
};

const ANSWERS: Vocabulary<OnUnavailable> = Vocabulary {
    argument: "on_unavailable",
    noun: "answer",
    words: &[("allow", OnUnavailable::Allow), ("deny", OnUnavailable::Deny), ("local", OnUnavailable::Local)],
    synonyms: &[("open", "allow"), ("closed", "deny"), ("memory", "local")],
    advice: "\"allow\", \"deny\" or \"local\"",
};

#[derive(Clone, Copy)]
enum Outcomes {
    All,
    Ok,
    Err,
}

pub(crate) fn algorithm(arg: &Arg<Expr>, diag: &mut Diagnostics) -> Option<Algorithm> {
    ALGORITHMS.of(arg, diag)
}

pub(crate) fn on_unavailable(arg: &Arg<Expr>, diag: &mut Diagnostics) -> Option<OnUnavailable> {
    ANSWERS.of(arg, diag)
}

pub(crate) fn count(arg: &Arg<Expr>, diag: &mut Diagnostics) -> Option<Count> {
    let value = bare(&arg.value);
    let message = match value {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(_) => {
                return OUTCOMES.of(arg, diag).map(|outcomes| match outcomes {
                    Outcomes::All => Count::All,
                    Outcomes::Ok => Count::Ok,
                    Outcomes::Err => Count::Err,
                });
            }
            Lit::Int(number) => {
                let digits = number.base10_digits();
                format!("`count` says which outcomes count: for the weight of a call write `cost = {digits}`")
            }
            _ => format!("`count` says which outcomes count: write {}", OUTCOMES.advice),
        },
        Expr::Path(ExprPath { path, .. }) if path.is_ident("Ok") => {
            "an outcome is a string: write `count = \"ok\"`".to_owned()
        }
        Expr::Path(ExprPath { path, .. }) if path.is_ident("Err") => {
            "an outcome is a string: write `count = \"err\"`".to_owned()
        }
        _ => {
            forbidden::check("count", value, diag);
            return Some(Count::By(arg.value.clone()));
        }
    };
    diag.error(value, message);
    None
}

impl<T: Copy> Vocabulary<T> {
    fn of(&self, arg: &Arg<Expr>, diag: &mut Diagnostics) -> Option<T> {
        let Self { argument, noun, advice, .. } = self;
        let text = as_str(&arg.value).map(LitStr::value);
        if let Some((_, value)) = self.words.iter().find(|(word, _)| text.as_deref() == Some(word)) {
            return Some(*value);
        }
        let message = match &text {
            None => format!("`{argument}` is a string: write {advice}"),
            Some(other) => match self.meant(other) {
                Some(meant) => format!("unknown {noun} \"{other}\": did you mean \"{meant}\"?"),
                None => format!("unknown {noun} \"{other}\": write {advice}"),
            },
        };
        diag.error(&arg.value, message);
        None
    }

    fn meant(&self, other: &str) -> Option<&'static str> {
        let plain = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).collect::<String>().to_lowercase();
        let other = plain(other);
        let synonym = self.synonyms.iter().find(|(synonym, _)| *synonym == other).map(|(_, word)| *word);
        let same = self.words.iter().map(|(word, _)| *word).find(|word| plain(word) == other);
        synonym.or(same).or_else(|| nearest(&other, self.words.iter().map(|(word, _)| *word)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn said<T>(read: fn(&Arg<Expr>, &mut Diagnostics) -> Option<T>, text: &str) -> Result<T, String> {
        let mut diag = Diagnostics::default();
        let value = read(&Arg { name: syn::parse_quote!(x), value: syn::parse_str(text).unwrap() }, &mut diag);
        match diag.finish() {
            Ok(()) => Ok(value.unwrap()),
            Err(errors) => Err(errors.into_iter().map(|e| e.to_string()).collect::<Vec<_>>().join("; ")),
        }
    }

    #[test]
    fn every_word() {
        assert!(matches!(said(algorithm, "\"sliding_window\""), Ok(Algorithm::SlidingWindow)));
        assert!(matches!(said(algorithm, "\"sliding_counter\""), Ok(Algorithm::SlidingCounter)));
        assert!(matches!(said(algorithm, "\"fixed_window\""), Ok(Algorithm::FixedWindow)));
        assert!(matches!(said(algorithm, "\"token_bucket\""), Ok(Algorithm::TokenBucket)));
        assert!(matches!(said(algorithm, "\"leaky_bucket\""), Ok(Algorithm::LeakyBucket)));
        assert!(matches!(said(count, "\"all\""), Ok(Count::All)));
        assert!(matches!(said(count, "\"ok\""), Ok(Count::Ok)));
        assert!(matches!(said(count, "\"err\""), Ok(Count::Err)));
        assert!(matches!(said(count, "|r| matches!(r, Err(E::Bad))"), Ok(Count::By(_))));
        assert!(matches!(said(count, "Result::is_err"), Ok(Count::By(_))));
        assert!(matches!(said(on_unavailable, "\"allow\""), Ok(OnUnavailable::Allow)));
        assert!(matches!(said(on_unavailable, "\"deny\""), Ok(OnUnavailable::Deny)));
    }

    #[test]
    fn synonyms_are_words() {
        for (_, word) in ALGORITHMS.synonyms {
            assert!(ALGORITHMS.words.iter().any(|(known, _)| known == word), "{word}");
        }
        for (_, word) in OUTCOMES.synonyms {
            assert!(OUTCOMES.words.iter().any(|(known, _)| known == word), "{word}");
        }
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
            let error = said(algorithm, text).err().unwrap();
            assert!(error.starts_with("unknown algorithm") || error.starts_with("`algorithm`"), "{error}");
            assert!(error.contains(part), "{text}: {error}");
        }
        for (text, part) in [
            ("\"error\"", "unknown outcome \"error\": did you mean \"err\"?"),
            ("\"Ok\"", "did you mean \"ok\"?"),
            ("\"failures\"", "did you mean \"err\"?"),
            ("\"banana\"", "write \"all\", \"ok\", \"err\", or a closure over the result"),
            ("5", "write `cost = 5`"),
            ("true", "which outcomes count"),
            ("Err", "write `count = \"err\"`"),
            ("Ok", "write `count = \"ok\"`"),
            ("judge?", "`?` cannot be used in `count`"),
        ] {
            let error = said(count, text).err().unwrap();
            assert!(error.contains(part), "{text}: {error}");
        }
        for (text, part) in [
            ("\"alow\"", "did you mean \"allow\"?"),
            ("\"memory\"", "did you mean \"local\"?"),
            ("\"banana\"", "unknown answer \"banana\": write \"allow\", \"deny\" or \"local\""),
            ("Deny", "write \"allow\", \"deny\" or \"local\""),
        ] {
            let error = said(on_unavailable, text).err().unwrap();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
