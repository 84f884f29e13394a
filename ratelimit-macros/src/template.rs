//! The grammar of key templates, `"<user.id>:<user.email()>"`, shared by `#[rate_limit]` and `key!`.

use std::ops::Range;

use syn::ext::IdentExt as _;
use syn::parse::Parser as _;
use syn::{Error, Ident, LitStr};

use crate::diag::Diagnostics;
use crate::literal::Source;

/// A template; without the pieces that have mistakes of grammar.
pub(crate) struct Template {
    pub(crate) source: Source,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) faultless: bool,
}

pub(crate) enum Piece {
    /// Text that stands for itself.
    Text(String),
    Place(Place),
}

/// A placeholder: a name and the steps from it to the value.
pub(crate) struct Place {
    /// The name as compared: without `r#`.
    pub(crate) root: String,
    pub(crate) steps: Vec<Step>,
    /// Where `root` stands, in characters of the template.
    pub(crate) at: Range<usize>,
}

pub(crate) enum Step {
    Field(String),
    Index(u32),
    Call(String),
}

impl Template {
    /// Reads `literal`; every mistake is an error that draws where it is.
    pub(crate) fn parse(literal: &LitStr, diag: &mut Diagnostics) -> Self {
        let source = Source::new(literal);
        let chars = source.chars();
        let mut reader = Reader { chars: &chars, at: 0, text: String::new(), pieces: Vec::new(), faults: Vec::new() };
        reader.template();
        let Reader { pieces, faults, .. } = reader;
        let faultless = faults.is_empty();
        for fault in faults {
            diag.push(Error::new(literal.span(), source.point(&fault.at, &fault.message)));
        }
        Self { source, pieces, faultless }
    }

    pub(crate) fn places(&self) -> impl Iterator<Item = &Place> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Place(place) => Some(place),
            Piece::Text(_) => None,
        })
    }
}

/// The identifier called `name`, raw if it has to be. `None` for what cannot be one.
pub(crate) fn ident(name: &str, span: proc_macro2::Span) -> Option<Ident> {
    if let Ok(mut ident) = syn::parse_str::<Ident>(name) {
        ident.set_span(span);
        return Some(ident);
    }
    let keyword = Ident::parse_any.parse_str(name).is_ok();
    let can_be_raw = !matches!(name, "self" | "Self" | "super" | "crate" | "_");
    match name {
        "self" => Some(Ident::new(name, span)),
        _ if keyword && can_be_raw => Some(Ident::new_raw(name, span)),
        _ => None,
    }
}

struct Fault {
    at: Range<usize>,
    message: String,
}

struct Reader<'a> {
    chars: &'a [char],
    at: usize,
    /// Text read since the last placeholder.
    text: String,
    pieces: Vec<Piece>,
    faults: Vec<Fault>,
}

impl Reader<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn fault(&mut self, at: Range<usize>, message: impl Into<String>) {
        self.faults.push(Fault { at, message: message.into() });
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
                    let message = format!("`{c}` closes nothing: write `{c}{c}` for the character itself");
                    self.fault(self.at..self.at + 1, message);
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
            self.pieces.push(Piece::Text(std::mem::take(&mut self.text)));
        }
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
                self.fault(start..end, message);
                // The wrong closing bracket is part of the same mistake.
                let wrong_close = matches!(self.chars.get(end), Some('>' | '}'));
                self.at = end + usize::from(wrong_close);
                return;
            }
        };
        self.end_of_text();
        match path(self.chars, inside..end) {
            Ok(place) => self.pieces.push(Piece::Place(place)),
            Err(fault) => self.faults.push(fault),
        }
        self.at = end + 1;
    }
}

/// The path that a placeholder's inside, `range` of `chars`, spells.
fn path(chars: &[char], range: Range<usize>) -> Result<Place, Fault> {
    let blank = |at: usize| chars.get(at).is_some_and(|c| *c == ' ');
    let (mut start, mut end) = (range.start, range.end);
    while start < end && blank(start) {
        start += 1;
    }
    while start < end && blank(end - 1) {
        end -= 1;
    }
    if start == end {
        let at = range.start.saturating_sub(1)..range.end + 1;
        let message = "an empty placeholder: write the name of an argument in it, as in `<email>`".to_owned();
        return Err(Fault { at, message });
    }
    let mut inside = Inside { chars, at: start, end };
    let (root, at) = inside.word()?;
    let mut steps = Vec::new();
    while let Some(c) = inside.peek() {
        if c != '.' {
            return Err(inside.unexpected(c));
        }
        inside.at += 1;
        steps.push(inside.step()?);
    }
    Ok(Place { root, steps, at })
}

/// The inside of one placeholder.
struct Inside<'a> {
    chars: &'a [char],
    at: usize,
    end: usize,
}

impl Inside<'_> {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied().filter(|_| self.at < self.end)
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> String {
        let mut taken = String::new();
        while let Some(c) = self.peek().filter(|c| wanted(*c)) {
            taken.push(c);
            self.at += 1;
        }
        taken
    }

    fn here(&self) -> Range<usize> {
        self.at..self.at + 1
    }

    fn step(&mut self) -> Result<Step, Fault> {
        if self.peek().is_some_and(|c| c.is_ascii_digit()) {
            let start = self.at;
            let digits = self.take_while(|c| c.is_ascii_digit());
            let message = || format!("`{digits}` is not the index of a tuple's field");
            return digits.parse().map(Step::Index).map_err(|_| Fault { at: start..self.at, message: message() });
        }
        let (name, at) = self.word()?;
        if matches!(name.as_str(), "await" | "self" | "Self" | "super" | "crate") {
            let message = if name == "await" {
                "a key cannot wait: `.await` before the call and pass the value as an argument".to_owned()
            } else {
                format!("`{name}` cannot be a field: write `.field`, `.0` or `.method()`")
            };
            return Err(Fault { at, message });
        }
        if self.peek() != Some('(') {
            return Ok(Step::Field(name));
        }
        let open = self.at;
        self.at += 1;
        if self.peek() != Some(')') {
            let message = format!(
                "a method in a template takes no arguments: for more, make the key an expression, `key = ….{name}(…)`"
            );
            return Err(Fault { at: open..self.end, message });
        }
        self.at += 1;
        Ok(Step::Call(name))
    }

    /// A name, without its `r#`.
    fn word(&mut self) -> Result<(String, Range<usize>), Fault> {
        let start = self.at;
        let raw = self.chars.get(start..self.end).is_some_and(|rest| rest.starts_with(&['r', '#']));
        if raw {
            self.at += 2;
        }
        let name = self.take_while(|c| c.is_alphanumeric() || c == '_');
        let at = start..self.at;
        match self.peek() {
            _ if name == "_" => Err(Fault { at, message: "`_` has no value: give the argument a name".to_owned() }),
            _ if Ident::parse_any.parse_str(&name).is_ok() => Ok((name, at)),
            Some(c) if name.is_empty() => Err(self.unexpected(c)),
            None if name.is_empty() => {
                let message = "the placeholder ends too early: write `.field`, `.0` or `.method()` after the dot";
                Err(Fault { at: self.at.saturating_sub(1)..self.at, message: message.to_owned() })
            }
            _ => Err(Fault { at, message: format!("`{name}` is not a name: write the name of an argument") }),
        }
    }

    fn unexpected(&self, c: char) -> Fault {
        let message = match c {
            ':' => "no format specifications and no `::` paths here: write the name alone, as in `<email>`".to_owned(),
            ' ' => "a space inside a placeholder: write one name in it, as in `<email>`; for more, make the key an expression, \
                    `key = …`"
                .to_owned(),
            _ => format!(
                "unexpected `{c}`: a placeholder is an argument, then `.field`, `.0` or `.method()`; \
                 for more, make the key an expression, `key = …`"
            ),
        };
        Fault { at: self.here(), message }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn parse(text: &str) -> Result<String, Vec<String>> {
        let literal = LitStr::new(text, proc_macro2::Span::call_site());
        let mut diag = Diagnostics::default();
        let template = Template::parse(&literal, &mut diag);
        if let Err(errors) = diag.finish() {
            return Err(errors.into_iter().map(|e| e.to_string()).collect());
        }
        let show = |piece: &Piece| match piece {
            Piece::Text(text) => format!("{text:?}"),
            Piece::Place(place) => place.steps.iter().fold(place.root.clone(), |path, step| match step {
                Step::Field(name) => path + "." + name,
                Step::Index(index) => format!("{path}.{index}"),
                Step::Call(name) => path + "." + name + "()",
            }),
        };
        Ok(template.pieces.iter().map(show).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn templates() {
        for (text, pieces) in [
            ("", ""),
            ("<email>", "email"),
            ("{email}", "email"),
            ("<user.id>:<user.email()>", "user.id \":\" user.email()"),
            ("<self.tenant>/<req.email().domain>", "self.tenant \"/\" req.email().domain"),
            ("<point.0.1>", "point.0.1"),
            ("<type>-<r#type>", "type \"-\" type"),
            ("<a><b>", "a b"),
            ("<<a>>{{b}}", "\"<a>{b}\""),
            ("<a>>>", "a \">\""),
            ("< a >", "a"),
            ("grüße <größe>", "\"grüße \" größe"),
        ] {
            assert_eq!(parse(text).as_deref(), Ok(pieces), "{text}");
        }
    }

    #[test]
    fn mistakes_say_where_and_what() {
        for (text, part) in [
            ("<email", "this `<` is never closed"),
            ("<email:<ip>", "this `<` is never closed"),
            ("<a}", "this `<` is never closed"),
            ("{a", "this `{` is never closed"),
            ("a>", "`>` closes nothing: write `>>`"),
            ("a}", "`}` closes nothing"),
            ("<>", "empty placeholder"),
            ("{ }", "empty placeholder"),
            ("<.a>", "unexpected `.`"),
            ("<a.>", "ends too early"),
            ("<a..b>", "unexpected `.`"),
            ("<#email>", "unexpected `#`"),
            ("<0>", "`0` is not a name"),
            ("<_>", "`_` has no value"),
            ("{a:?}", "no format specifications"),
            ("<a b>", "a space inside"),
            ("<a.f(1)>", "make the key an expression, `key = ….f(…)`"),
            ("<a.f(>", "takes no arguments"),
            ("<a.await>", "cannot wait"),
            ("<a.99999999999>", "index of a tuple"),
            ("<a+b>", "unexpected `+`"),
            ("<a[0]>", "unexpected `[`"),
        ] {
            let errors = parse(text).unwrap_err();
            assert_eq!(errors.len(), 1, "{text}: {errors:?}");
            assert!(errors.iter().all(|e| e.contains(part) && e.contains('^')), "{text}: {errors:?}");
        }
    }

    #[test]
    fn every_mistake_is_reported() {
        assert_eq!(parse("<>:<a b>:>").unwrap_err().len(), 3);
    }

    #[test]
    fn identifiers() {
        let ident = |name| ident(name, proc_macro2::Span::call_site()).map(|ident| ident.to_string());
        assert_eq!(ident("email").as_deref(), Some("email"));
        assert_eq!(ident("type").as_deref(), Some("r#type"));
        assert_eq!(ident("self").as_deref(), Some("self"));
        assert_eq!(ident("crate"), None);
        assert_eq!(ident("_"), None);
    }
}
