//! The value of `key`: a template whose placeholders the function's arguments fill, or an expression.

use std::ops::Range;

use proc_macro2::Span;
use syn::{Error, Expr};

use crate::args::{Arg, as_str};
use crate::diag::{Diagnostics, list};
use crate::forbidden;
use crate::plan::{Key, Piece, Value};
use crate::scope::Scope;
use crate::suggest::nearest;
use crate::template::{self, Place, Template};

pub(crate) fn key(arg: Option<&Arg<Expr>>, scope: &Scope, diag: &mut Diagnostics) -> Option<Key> {
    let Some(arg) = arg else { return Some(Key::None) };
    let Some(literal) = as_str(&arg.value) else {
        forbidden::check("key", &arg.value, diag);
        return Some(Key::Expr(arg.value.clone()));
    };
    if literal.value().is_empty() {
        diag.error(literal, "an empty key: write `key = \"<email>\"`, or leave `key` out for one bucket for everybody");
        return None;
    }
    let template = Template::parse(literal, diag);
    if template.faultless
        && let Some((word, at)) = spelled_argument(&template, scope)
    {
        let message = format!(
            "this key is the same for every call: did you mean `<{word}>`? (for one bucket for everybody leave `key` out)"
        );
        diag.push(Error::new(literal.span(), template.source.point(&at, &message)));
        return None;
    }
    let mut faultless = template.faultless;
    let mut pieces = Vec::new();
    for piece in &template.pieces {
        let place = match piece {
            template::Piece::Text(text) => {
                pieces.push(Piece::Text(text.clone()));
                continue;
            }
            template::Piece::Place(place) => place,
        };
        match resolve(place, literal.span(), scope) {
            Ok(value) => pieces.push(Piece::Value(value)),
            Err(fault) => {
                faultless = false;
                diag.push(Error::new(literal.span(), template.source.point(&place.at, &fault)));
            }
        }
    }
    faultless.then_some(Key::Template(pieces))
}

/// The value that `place` names, or what is wrong with it.
fn resolve(place: &Place, literal: Span, scope: &Scope) -> Result<Value, String> {
    let root = if place.root == "self" {
        scope.receiver_at(literal).ok_or_else(|| format!("this function has no `self`{}", choice(scope)))?
    } else {
        let Some(name) = scope.find(&place.root) else { return Err(unknown(&place.root, scope)) };
        if name.conditional {
            return Err(format!(
                "`{}` is not always there: its argument is under `#[cfg]`, so it cannot be part of a key",
                place.root
            ));
        }
        let mut ident = name.ident.clone();
        // Located in the literal, resolved where the argument was written.
        ident.set_span(literal.resolved_at(ident.span()));
        ident
    };
    // Fields and methods are found whatever the hygiene; made by a macro, they get no suggestion to replace the template.
    let span = literal.resolved_at(Span::mixed_site());
    Value::new(place, root, span).ok_or_else(|| format!("`{}` cannot be read", place.root))
}

fn unknown(name: &str, scope: &Scope) -> String {
    let meant = match nearest(name, scope.texts().iter().map(String::as_str)) {
        Some(meant) => format!(": did you mean `{meant}`?"),
        None => String::new(),
    };
    let choice = choice(scope);
    if choice.is_empty() {
        return format!("no argument is called `{name}`: no argument of this function has a name");
    }
    format!("no argument is called `{name}`{meant}{choice}")
}

/// What there is to choose from, if there is anything.
fn choice(scope: &Scope) -> String {
    let names = scope.texts();
    if names.is_empty() { String::new() } else { format!(" (the arguments: {})", list(&names)) }
}

/// An argument's name in a template without placeholders: surely meant to be one.
fn spelled_argument(template: &Template, scope: &Scope) -> Option<(String, Range<usize>)> {
    if template.places().next().is_some() {
        return None;
    }
    let chars = template.source.chars();
    let mut start = 0;
    for word in chars.split(|c| !(c.is_alphanumeric() || *c == '_')) {
        let text: String = word.iter().collect();
        if scope.find(&text).is_some() {
            return Some((text, start..start + word.len()));
        }
        start += word.len() + 1;
    }
    None
}
