//! The grammar of key templates, `"<user.id>:<user.email()>"`, shared by `#[rate_limit]` and
//! `key!`.

use std::ops::Range;

use syn::LitStr;

use crate::diagnostics::Diagnostics;
use crate::literal_text::LiteralText;
use crate::parse::placeholder::{Fault, Placeholder, read};

/// A template; without the pieces that have mistakes of grammar.
pub(crate) struct Template {
    pub(crate) literal: LiteralText,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) faultless: bool,
}

/// A piece of a template.
pub(crate) enum Piece {
    /// Text that stands for itself.
    Text(String),
    Placeholder(Placeholder),
}

impl Template {
    /// Reads `literal`; every mistake is an error that draws where it is.
    pub(crate) fn parse(literal: &LitStr, diagnostics: &mut Diagnostics) -> Self {
        let text = LiteralText::new(literal);
        let mut reader = TemplateReader {
            chars: text.chars(),
            at: 0,
            text: String::new(),
            pieces: Vec::new(),
            faults: Vec::new(),
        };
        reader.template();
        let TemplateReader { pieces, faults, .. } = reader;
        let faultless = faults.is_empty();
        for Fault { at, message } in faults {
            diagnostics.push(text.error(&at, &message));
        }
        Self {
            literal: text,
            pieces,
            faultless,
        }
    }

    /// The pieces, each placeholder as `resolve` gives it; a fault is an error.
    pub(crate) fn resolved(
        self,
        resolve: impl Fn(Placeholder) -> Result<Placeholder, Fault>,
        diagnostics: &mut Diagnostics,
    ) -> Option<Vec<Piece>> {
        let mut faultless = self.faultless;
        let mut resolved = Vec::new();
        for piece in self.pieces {
            let piece = match piece {
                Piece::Placeholder(placeholder) => resolve(placeholder).map(Piece::Placeholder),
                text @ Piece::Text(_) => Ok(text),
            };
            match piece {
                Ok(piece) => resolved.push(piece),
                Err(Fault { at, message }) => {
                    faultless = false;
                    diagnostics.push(self.literal.error(&at, &message));
                }
            }
        }
        faultless.then_some(resolved)
    }

    pub(crate) fn placeholders(&self) -> impl Iterator<Item = &Placeholder> + Clone {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Placeholder(placeholder) => Some(placeholder),
        })
    }
}

struct TemplateReader<'a> {
    chars: &'a [char],
    at: usize,
    /// Text read since the last placeholder.
    text: String,
    pieces: Vec<Piece>,
    faults: Vec<Fault>,
}

impl TemplateReader<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn template(&mut self) {
        while let Some(c) = self.peek(0) {
            match c {
                '<' | '>' | '{' | '}' if self.peek(1) == Some(c) => {
                    self.text.push(c);
                    self.at += 2;
                }
                '<' => self.bracketed('<', '>'),
                '{' => self.bracketed('{', '}'),
                '>' | '}' => {
                    let message =
                        format!("`{c}` closes nothing: write `{c}{c}` for the character itself");
                    self.faults.push(Fault {
                        at: self.at..self.at + 1,
                        message,
                    });
                    self.at += 1;
                }
                _ => {
                    self.text.push(c);
                    self.at += 1;
                }
            }
        }
        self.end_of_text();
    }

    fn end_of_text(&mut self) {
        if !self.text.is_empty() {
            self.pieces
                .push(Piece::Text(std::mem::take(&mut self.text)));
        }
    }

    /// The mark of other languages before the `{` of a placeholder, if it stands before the bracket
    /// at `start`.
    fn mark_before(&self, start: usize) -> Option<char> {
        let mark = *self.chars.get(start.checked_sub(1)?)?;
        (self.chars.get(start) == Some(&'{') && matches!(mark, '$' | '#')).then_some(mark)
    }

    /// A placeholder, from its opening bracket to its closing one.
    fn bracketed(&mut self, open: char, close: char) {
        let start = self.at;
        let inside = start + 1;
        let rest = self.chars.get(inside..).unwrap_or_default();
        let length = rest.iter().position(|c| matches!(c, '<' | '>' | '{' | '}'));
        let end = match length {
            Some(length) if rest.get(length) == Some(&close) => inside + length,
            _ => {
                let end = length.map_or(self.chars.len(), |length| inside + length);
                let message = format!(
                    "this `{open}` is never closed: write `{open}name{close}` for an argument, \
                     `{open}{open}` for the character itself"
                );
                self.faults.push(Fault {
                    at: start..end,
                    message,
                });
                // The wrong closing bracket is part of the same mistake.
                let wrong_close = matches!(self.chars.get(end), Some('>' | '}'));
                self.at = end + usize::from(wrong_close);
                return;
            }
        };
        if let Some(mark) = self.mark_before(start) {
            let text = |at: Range<usize>| -> String {
                self.chars.get(at).unwrap_or_default().iter().collect()
            };
            let (whole, name) = (text(start..end + 1), text(inside..end));
            let message = format!(
                "this `{mark}` would be a part of the key: did you mean `{whole}`? (for the \
                 character itself write `{mark}<{name}>`)"
            );
            self.faults.push(Fault {
                at: start - 1..end + 1,
                message,
            });
        }
        self.end_of_text();
        match read(self.chars, inside..end) {
            Ok(placeholder) => self.pieces.push(Piece::Placeholder(placeholder)),
            Err(fault) => self.faults.push(fault),
        }
        self.at = end + 1;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use quote::ToTokens as _;

    use super::*;
    use crate::parse::placeholder::Step;

    fn parse(text: &str) -> Result<String, Vec<String>> {
        let literal = LitStr::new(text, proc_macro2::Span::call_site());
        let mut diagnostics = Diagnostics::default();
        let template = Template::parse(&literal, &mut diagnostics);
        let errors = diagnostics.messages();
        if !errors.is_empty() {
            return Err(errors);
        }
        assert!(template.faultless);
        let show = |piece: &Piece| match piece {
            Piece::Text(text) => format!("{text:?}"),
            Piece::Placeholder(Placeholder { root, steps, .. }) => {
                steps.iter().fold(root.clone(), |path, step| match step {
                    Step::Field(member) => format!("{path}.{}", member.to_token_stream()),
                    Step::Call(name) => format!("{path}.{name}()"),
                })
            }
        };
        Ok(template
            .pieces
            .iter()
            .map(show)
            .collect::<Vec<_>>()
            .join(" "))
    }

    #[test]
    fn a_template_is_text_and_placeholders() {
        for (text, pieces) in [
            ("", ""),
            ("<email>", "email"),
            ("{email}", "email"),
            ("<user.id>:<user.email()>", "user.id \":\" user.email()"),
            (
                "<self.tenant>/<req.email().domain>",
                "self.tenant \"/\" req.email().domain",
            ),
            ("<point.0.1>", "point.0.1"),
            ("<type>-<r#type>", "type \"-\" type"),
            ("<a><b>", "a b"),
            ("<<a>>{{b}}", "\"<a>{b}\""),
            ("<a>>>", "a \">\""),
            ("$<a>#<b>", "\"$\" a \"#\" b"),
            ("${{a}}", "\"${a}\""),
            ("< a >", "a"),
            ("grüße <größe>", "\"grüße \" größe"),
        ] {
            assert_eq!(parse(text).as_deref(), Ok(pieces), "{text}");
        }
    }

    #[test]
    fn every_mistake_is_reported() {
        assert_eq!(parse("<>:<a b>:>").unwrap_err().len(), 3);
    }

    /// A comment would leave out of the key what its author meant to be in it.
    #[test]
    fn a_placeholder_holds_no_comment_and_no_space() {
        for text in ["<a//b>", "<a/*b*/>", "<a/*b*/.c>", "<a\n.b>", "<a.\tb>"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
