//! Carets under a part of a string literal, drawn in the message: stable Rust cannot make a span
//! for that.

use std::ops::Range;

use syn::LitStr;

/// A string literal, and how each of its characters is written.
pub(crate) struct LiteralText {
    chars: Vec<char>,
    spelled: Vec<String>,
}

impl LiteralText {
    pub(crate) fn new(literal: &LitStr) -> Self {
        let chars: Vec<char> = literal.value().chars().collect();
        let spelled = chars.iter().map(|c| {
            if *c == '\'' {
                c.to_string()
            } else {
                c.escape_debug().to_string()
            }
        });
        Self {
            spelled: spelled.collect(),
            chars,
        }
    }

    /// The characters of the value.
    pub(crate) fn chars(&self) -> &[char] {
        &self.chars
    }

    /// `message`, then the literal with carets under the characters of the value in `range`.
    pub(crate) fn point(&self, range: &Range<usize>, message: &str) -> String {
        let width = |part: Option<&[String]>| {
            part.unwrap_or_default()
                .iter()
                .map(|c| c.chars().count())
                .sum::<usize>()
        };
        let indent = 1 + width(self.spelled.get(..range.start));
        let carets = width(self.spelled.get(range.clone())).max(1);
        let text = self.spelled.concat();
        format!(
            "{message}\n    \"{text}\"\n    {}{}",
            " ".repeat(indent),
            "^".repeat(carets)
        )
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn points_at_what_the_value_holds() {
        for (literal, range, expected) in [
            (
                r#""a\t<emial>""#,
                3..8,
                "no\n    \"a\\t<emial>\"\n         ^^^^^",
            ),
            ("r#\"ü<x>\"#", 2..3, "no\n    \"ü<x>\"\n       ^"),
            (
                "\"one\n<two>\"",
                5..8,
                "no\n    \"one\\n<two>\"\n           ^^^",
            ),
            ("\"ab\"", 2..2, "no\n    \"ab\"\n       ^"),
        ] {
            let text = LiteralText::new(&syn::parse_str(literal).unwrap());
            assert_eq!(text.point(&range, "no"), expected);
        }
    }
}
