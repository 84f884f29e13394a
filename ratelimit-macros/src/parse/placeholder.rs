//! The inside of a placeholder: a name, then `.field`, `.0` and `.method()`.

use std::ops::Range;

use proc_macro2::Span;
use syn::ext::IdentExt as _;
use syn::parse::Parser as _;
use syn::{Ident, Index, Member};

/// A placeholder: a name and the steps from it to the value.
pub(crate) struct Placeholder {
    /// The name as compared: without `r#`.
    pub(crate) root: String,
    pub(crate) steps: Vec<Step>,
    /// Where `root` stands, in characters of the template.
    pub(crate) at: Range<usize>,
    /// Where all of it stands, its brackets included.
    pub(crate) whole: Range<usize>,
}

pub(crate) enum Step {
    Field(Member),
    Call(Ident),
}

/// What is wrong with a template, and where, in characters.
pub(crate) struct Fault {
    pub(crate) at: Range<usize>,
    pub(crate) message: String,
}

/// Reads the inside of a placeholder, `range` of `chars`.
pub(crate) fn read(chars: &[char], range: Range<usize>) -> Result<Placeholder, Fault> {
    let blank = |at: usize| chars.get(at).is_some_and(|c| *c == ' ');
    let (mut start, mut end) = (range.start, range.end);
    let whole = range.start.saturating_sub(1)..range.end + 1;
    while start < end && blank(start) {
        start += 1;
    }
    while start < end && blank(end - 1) {
        end -= 1;
    }
    if start == end {
        let message = "an empty placeholder: write the name of an argument in it, as in `<email>`".to_owned();
        return Err(Fault { at: whole, message });
    }
    let mut inside = Inside { chars, start, at: start, end };
    let (root, at) = inside.word()?;
    let mut steps = Vec::new();
    while let Some(c) = inside.peek() {
        if c != '.' {
            return Err(inside.unexpected(c));
        }
        inside.at += 1;
        steps.push(inside.step()?);
    }
    Ok(Placeholder { root, steps, at, whole })
}

/// The inside of one placeholder.
struct Inside<'a> {
    chars: &'a [char],
    start: usize,
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
            let Ok(index) = digits.parse() else {
                let message = format!("`{digits}` is not the index of a tuple's field");
                return Err(Fault { at: start..self.at, message });
            };
            return Ok(Step::Field(Member::Unnamed(Index { index, span: Span::call_site() })));
        }
        let (name, at) = self.word()?;
        if name == "await" {
            let message = "a key cannot wait: `.await` before the call and pass the value as an argument".to_owned();
            return Err(Fault { at, message });
        }
        let Some(ident) = ident(&name, Span::call_site()).filter(|ident| ident != "self") else {
            let message = format!("`{name}` cannot be a field: write `.field`, `.0` or `.method()`");
            return Err(Fault { at, message });
        };
        if self.peek() != Some('(') {
            return Ok(Step::Field(Member::Named(ident)));
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
        Ok(Step::Call(ident))
    }

    /// A name, without its `r#`.
    fn word(&mut self) -> Result<(String, Range<usize>), Fault> {
        let start = self.at;
        let raw = self.chars.get(start..self.end).is_some_and(|rest| rest.starts_with(&['r', '#']));
        if raw {
            self.at += 2;
        }
        let name = self.take_while(|c| c.is_alphanumeric() || c == '_' || combines(c));
        let at = start..self.at;
        // The compiler composes the characters of names (NFC), and so does it here.
        let composed = Ident::parse_any.parse_str(&name).map(|ident| ident.to_string());
        match self.peek() {
            _ if name == "_" => Err(Fault { at, message: "`_` has no value: give the argument a name".to_owned() }),
            _ if composed.is_ok() => Ok((composed.unwrap_or(name), at)),
            Some(c) if name.is_empty() => Err(self.unexpected(c)),
            None if name.is_empty() => {
                let message = "the placeholder ends too early: write `.field`, `.0` or `.method()` after the dot";
                Err(Fault { at: self.at.saturating_sub(1)..self.at, message: message.to_owned() })
            }
            _ => Err(Fault { at, message: format!("`{name}` is not a name: write the name of an argument") }),
        }
    }

    fn unexpected(&self, c: char) -> Fault {
        let next = self.chars.get(self.at..self.end).unwrap_or_default().iter().find(|c| **c != ' ');
        let path = c == ':' && self.chars.get(self.at + 1) == Some(&':');
        let message = match c {
            _ if next.is_some_and(|next| OPERATORS.contains(next)) => self.no_expressions(),
            ':' if path => "no `::` in a placeholder: write `.field` or `.method()`, as in `<user.id>`".to_owned(),
            ':' => {
                let name = self.text(self.start..self.at);
                format!("no format specifications in a placeholder: write `<{name}>`")
            }
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

    fn no_expressions(&self) -> String {
        let inside = self.text(self.start..self.end);
        let operands: Vec<_> =
            inside.split(|c| OPERATORS.contains(&c)).map(str::trim).filter(|operand| !operand.is_empty()).collect();
        let plain = |operand: &&str| operand.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.'));
        let template = if operands.len() > 1 && operands.iter().all(plain) {
            format!(" or `\"<{}>\"`", operands.join(">/<"))
        } else {
            String::new()
        };
        format!("no expressions in a placeholder: write `key = {inside}`{template}")
    }

    fn text(&self, range: Range<usize>) -> String {
        self.chars.get(range).unwrap_or_default().iter().collect()
    }
}

/// What makes an expression of what would be a name. The brackets of placeholders cannot be among
/// them.
const OPERATORS: [char; 10] = ['+', '-', '*', '/', '%', '^', '&', '|', '!', '='];

/// Whether `c` is a mark that is part of the character before it.
fn combines(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{3099}' | '\u{309a}')
}

/// The identifier called `name`, raw if it has to be. `None` for what cannot be one.
pub(crate) fn ident(name: &str, span: Span) -> Option<Ident> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers() {
        let ident = |name| ident(name, Span::call_site()).map(|ident| ident.to_string());
        assert_eq!(ident("email").as_deref(), Some("email"));
        assert_eq!(ident("type").as_deref(), Some("r#type"));
        assert_eq!(ident("self").as_deref(), Some("self"));
        assert_eq!(ident("crate"), None);
        assert_eq!(ident("_"), None);
    }
}
