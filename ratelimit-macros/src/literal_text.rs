//! String literals with the position of every character in their source text, so that an error can
//! draw carets under a part of a literal. Stable Rust cannot make a span for that.

use std::ops::Range;

use syn::LitStr;

/// A string literal as it was written and as it reads.
pub(crate) struct LiteralText {
    /// The literal's source text: quotes, escapes and all.
    text: String,
    /// Each character of the value, and the bytes of `text` that spell it.
    chars: Vec<(char, Range<usize>)>,
}

impl LiteralText {
    pub(crate) fn new(literal: &LitStr) -> Self {
        let value = literal.value();
        let text = literal.token().to_string();
        let chars = read(&text);
        if chars.iter().map(|(c, _)| *c).eq(value.chars()) {
            return Self { text, chars };
        }
        // A spelling this reader does not know: show the value instead of the source.
        let chars = value.char_indices().map(|(at, c)| (c, at + 1..at + 1 + c.len_utf8())).collect();
        Self { text: format!("\"{value}\""), chars }
    }

    /// The characters of the value.
    pub(crate) fn chars(&self) -> Vec<char> {
        self.chars.iter().map(|(c, _)| *c).collect()
    }

    /// `message`, then the literal with carets under the characters of the value in `range`.
    pub(crate) fn point(&self, range: &Range<usize>, message: &str) -> String {
        let end_of_text = self.text.len().saturating_sub(1);
        let start = self.chars.get(range.start).map_or(end_of_text, |(_, at)| at.start);
        let last = range.end.checked_sub(1).and_then(|last| self.chars.get(last));
        let end = last.map_or(start, |(_, at)| at.end).max(start);

        let before = self.text.get(..start).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let rest = self.text.get(line_start..).unwrap_or_default();
        let line = rest.lines().next().unwrap_or_default();
        let indent = self.text.get(line_start..start).unwrap_or_default().chars().count();
        let line_end = line_start + line.len();
        let under = self.text.get(start..end.min(line_end)).unwrap_or_default();
        let carets = under.chars().count().max(1);
        format!("{message}\n    {line}\n    {}{}", " ".repeat(indent), "^".repeat(carets))
    }
}

/// The characters that a literal's source text stands for.
fn read(text: &str) -> Vec<(char, Range<usize>)> {
    let Some(open) = text.find('"') else { return Vec::new() };
    let Some(close) = text.rfind('"') else { return Vec::new() };
    let inside = text.get(open + 1..close).unwrap_or_default();
    let start = open + 1;
    if text.starts_with('r') {
        return inside.char_indices().map(|(at, c)| (c, start + at..start + at + c.len_utf8())).collect();
    }
    let mut chars = Vec::new();
    let mut rest = inside;
    while let Some(first) = rest.chars().next() {
        let at = start + (inside.len() - rest.len());
        let (c, length) = if first == '\\' { escape(rest) } else { (Some(first), first.len_utf8()) };
        if let Some(c) = c {
            chars.push((c, at..at + length));
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    chars
}

/// The character that the escape at the start of `text` stands for (none for a line continuation)
/// and its length in bytes. The compiler has already refused malformed ones.
fn escape(text: &str) -> (Option<char>, usize) {
    let code = |digits: &str| u32::from_str_radix(&digits.replace('_', ""), 16).ok().and_then(char::from_u32);
    match text.chars().nth(1) {
        Some('n') => (Some('\n'), 2),
        Some('r') => (Some('\r'), 2),
        Some('t') => (Some('\t'), 2),
        Some('0') => (Some('\0'), 2),
        Some('x') => (text.get(2..4).and_then(code), 4),
        Some('u') => {
            let end = text.find('}').unwrap_or(text.len());
            (text.get(3..end).and_then(code), (end + 1).min(text.len()))
        }
        Some('\n' | '\r') => {
            let after = text.get(1..).unwrap_or_default().trim_start();
            (None, text.len() - after.len())
        }
        Some(other) => (Some(other), 1 + other.len_utf8()),
        None => (None, text.len()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn written(text: &str) -> LiteralText {
        LiteralText::new(&syn::parse_str(text).unwrap())
    }

    #[test]
    fn reads_what_the_compiler_reads() {
        for text in [
            r#""plain""#,
            r#""""#,
            r#""tab\t quote\" back\\ x\x41 u\u{1F6_00} nul\0""#,
            r##"r#"raw "quoted" \n"#"##,
            "\"split \\\n     line\"",
            "\"two\nlines\"",
            r#""grüße""#,
        ] {
            let literal: LitStr = syn::parse_str(text).unwrap();
            assert_eq!(written(text).chars().into_iter().collect::<String>(), literal.value(), "{text}");
        }
    }

    #[test]
    fn points_into_the_source_text() {
        let message = written(r#""a\t<emial>""#).point(&(3..8), "no");
        assert_eq!(message, "no\n    \"a\\t<emial>\"\n         ^^^^^");
        let message = written("r#\"ü<x>\"#").point(&(2..3), "no");
        assert_eq!(message, "no\n    r#\"ü<x>\"#\n         ^");
        let message = written("\"one\n<two>\"").point(&(5..8), "no");
        assert_eq!(message, "no\n    <two>\"\n     ^^^");
        let message = written("\"ab\"").point(&(2..2), "at the end");
        assert_eq!(message, "at the end\n    \"ab\"\n       ^");
    }
}
