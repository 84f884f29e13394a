//! [`LiteralText`]: draws carets under a part of a string literal, as stable Rust has no span for
//! it.

use std::ops::Range;

use proc_macro2::Span;
use syn::{Error, LitStr};

/// A string literal: its characters, and how each of them is spelled in a message.
pub(crate) struct LiteralText {
    chars: Vec<char>,
    spelled: Vec<String>,
    span: Span,
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
            span: literal.span(),
        }
    }

    /// The characters of the literal's value.
    pub(crate) fn chars(&self) -> &[char] {
        &self.chars
    }

    /// An error of `message`, then the literal, then carets under the characters of its value in
    /// `range`.
    pub(crate) fn error(&self, range: &Range<usize>, message: &str) -> Error {
        let width = |part: Option<&[String]>| {
            part.unwrap_or_default()
                .iter()
                .flat_map(|spelled| spelled.chars())
                .map(columns)
                .sum::<usize>()
        };
        let indent = 1 + width(self.spelled.get(..range.start));
        let carets = width(self.spelled.get(range.clone())).max(1);
        let text = self.spelled.concat();
        let message = format!(
            "{message}\n    \"{text}\"\n    {}{}",
            " ".repeat(indent),
            "^".repeat(carets)
        );
        Error::new(self.span, message)
    }
}

/// The columns of a terminal that a printed character takes: two in the blocks of East Asian
/// scripts and of emoji.
fn columns(c: char) -> usize {
    match c {
        '\u{1100}'..='\u{115F}'
        | '\u{2E80}'..='\u{A4CF}'
        | '\u{AC00}'..='\u{D7A3}'
        | '\u{F900}'..='\u{FAFF}'
        | '\u{FE30}'..='\u{FE6F}'
        | '\u{FF01}'..='\u{FF60}'
        | '\u{FFE0}'..='\u{FFE6}'
        | '\u{1F300}'..='\u{1FAFF}'
        | '\u{20000}'..='\u{3FFFD}' => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn an_error_points_into_the_literal() {
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
            // In a terminal each of these takes the room of two.
            ("\"用户<邮>\"", 3..4, "no\n    \"用户<邮>\"\n          ^^"),
        ] {
            let text = LiteralText::new(&syn::parse_str(literal).unwrap());
            assert_eq!(text.error(&range, "no").to_string(), expected);
        }
    }
}
