//! The value of `key`: a template whose placeholders the function's arguments fill, or an
//! expression.

pub(crate) mod expr;
pub(crate) mod key_macro;
pub(crate) mod spelled;
pub(crate) mod text;
pub(crate) mod varies;

use proc_macro2::Span;
use syn::{Error, Expr, Ident, LitStr, Member};

use crate::check::function::names::last_two;
use crate::check::function::scope::{Binding, Scope};
use crate::diagnostics::{Diagnostics, list};
use crate::literal::{as_str, bare};
use crate::parse::arguments::Argument;
use crate::parse::key_macro::KeyInput;
use crate::parse::placeholder::{Fault, Placeholder, Step};
use crate::parse::template::{Piece, Template};
use crate::suggest::nearest;

pub(crate) enum Key {
    /// One bucket for the function.
    None,
    Template(Vec<Piece>),
    /// An expression, and the names by which alone it may differ between calls.
    Expr(Expr, Vec<Ident>),
}

pub(crate) fn read(
    argument: Option<&Argument>,
    scope: &Scope,
    diagnostics: &mut Diagnostics,
) -> Option<Key> {
    let Some(Argument { value, .. }) = argument else {
        return Some(Key::None);
    };
    let Some(literal) = as_str(value) else {
        if let Some(template) = of_key_macro(value) {
            let message = format!(
                "`key!` is for keys by hand: write the template itself, `key = {template}`"
            );
            diagnostics.error(value, message);
            return None;
        }
        let names = expr::check(value, scope, diagnostics);
        return Some(Key::Expr(value.clone(), names));
    };
    if literal.value().is_empty() {
        let message = "an empty key: write `key = \"<email>\"`, or leave `key` out for one bucket \
            for all callers";
        diagnostics.error(literal, message);
        return None;
    }
    let template = Template::parse(literal, diagnostics);
    if template.faultless
        && let Some(error) = half_written(&template, literal, scope)
    {
        diagnostics.push(error);
        return None;
    }
    let only = template.placeholders().count() == 1;
    let resolve = |placeholder| resolve(placeholder, literal.span(), only, scope);
    template.resolved(resolve, diagnostics).map(Key::Template)
}

/// The template in `key!("…")`, as it was written.
fn of_key_macro(value: &Expr) -> Option<String> {
    let Expr::Macro(call) = bare(value) else {
        return None;
    };
    let is_key = last_two(&call.mac.path).1 == "key";
    let input: KeyInput = call.mac.parse_body().ok().filter(|_| is_key)?;
    Some(input.template.token().to_string())
}

/// The error for a template that is the same for every call, or that spells an argument as mere
/// text.
fn half_written(template: &Template, literal: &LitStr, scope: &Scope) -> Option<Error> {
    let text = &template.literal;
    let chars = text.chars();
    if template.placeholders().next().is_some() {
        let (word, at) = spelled::beside(chars, &template.placeholders(), scope)?;
        let message = format!(
            "`{word}` is only text here: did you mean `<{word}>`? (if not, use another word)"
        );
        return Some(text.error(&at, &message));
    }
    if let Some((word, at)) = spelled::argument(chars, scope) {
        let message = format!(
            "this key is the same for every call: did you mean `<{word}>`? (for one bucket for all \
             callers leave `key` out)"
        );
        return Some(text.error(&at, &message));
    }
    let message = match scope.bindings.first() {
        Some(first) => format!(
            "this key is the same for every call: write an argument in brackets, as in `<{}>`, or \
             leave `key` out for one bucket for all callers{}",
            first.text(),
            choice(scope)
        ),
        None => {
            "this key is the same for every call: leave `key` out for one bucket for all callers"
                .to_owned()
        }
    };
    Some(Error::new(literal.span(), message))
}

/// The value that `placeholder` names, or an error. An error of the compiler about the value can
/// underline all of the literal, if the placeholder is the only one there, or else the argument.
fn resolve(
    placeholder: Placeholder,
    literal: Span,
    only: bool,
    scope: &Scope,
) -> Result<Placeholder, Fault> {
    let root = root(&placeholder, scope).map_err(|message| Fault {
        at: placeholder.at.clone(),
        message,
    })?;
    let without_fields = |binding: &Binding| binding.without_fields;
    if let (true, Some(Step::Field(Member::Named(field)))) = (
        scope.find(&placeholder.root).is_some_and(without_fields),
        placeholder.steps.first(),
    ) {
        let message = format!(
            "`{0}` has no fields: for a method write `<{0}.{field}()>`",
            placeholder.root
        );
        let at = placeholder.at;
        return Err(Fault { at, message });
    }
    let span = if only { literal } else { root.span() };
    let mut root = root.clone();
    // Located where errors are to be, resolved where the argument was written.
    root.set_span(span.resolved_at(root.span()));
    // Fields and methods are found whatever the hygiene. As a macro's own, they get no suggestion
    // from the compiler to replace the whole template by a near name. One to call a method after
    // it, where a field is private or missing, no span prevents.
    Ok(placeholder.of(root, span.resolved_at(Span::mixed_site())))
}

/// The name that `placeholder` begins with, as written in the signature; or the reason why it has
/// no value here.
fn root<'a>(placeholder: &Placeholder, scope: &'a Scope) -> Result<&'a Ident, String> {
    let name = &placeholder.root;
    if name == "self" {
        return scope
            .receiver
            .as_ref()
            .ok_or_else(|| format!("this function has no `self`{}", choice(scope)));
    }
    let Some(binding) = scope.find(name) else {
        return Err(unknown(name, scope));
    };
    if binding.ambiguous {
        return Err(format!(
            "two arguments are called `{name}`, one of which a macro has named: make the key an \
             expression, `key = …`"
        ));
    }
    if binding.conditional {
        return Err(format!(
            "`{name}` is not always there: its argument is under `#[cfg]`, so it cannot be part of \
             a key"
        ));
    }
    Ok(&binding.ident)
}

fn unknown(name: &str, scope: &Scope) -> String {
    if scope.has_parameter(name) {
        return format!(
            "`{name}` is not an argument, and a placeholder begins with one: make the key an \
             expression, `key = …`"
        );
    }
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

/// The arguments to choose from, if there are any.
fn choice(scope: &Scope) -> String {
    let names = scope.texts();
    if names.is_empty() {
        String::new()
    } else {
        format!(" (the arguments: {})", list(&names))
    }
}
