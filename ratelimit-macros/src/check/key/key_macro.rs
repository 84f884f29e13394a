//! The template of `key!`, whose placeholders are names in scope.

use proc_macro2::Span;

use crate::diagnostics::Diagnostics;
use crate::parse::key_macro::KeyInput;
use crate::parse::placeholder::Placeholder;
use crate::parse::template::{Piece, Template};

/// The pieces of the template.
pub(crate) fn check(input: &KeyInput) -> syn::Result<Vec<Piece>> {
    let literal = &input.template;
    let mut diagnostics = Diagnostics::default();
    if literal.value().is_empty() {
        diagnostics.error(
            literal,
            "an empty key: write a template, `key!(\"<email>\")`",
        );
    }
    let resolve = |placeholder: Placeholder| {
        let mut ident = placeholder.ident.clone();
        ident.set_span(literal.span());
        // As in the attribute: no suggestion to replace the whole template by a field.
        Ok(placeholder.of(ident, literal.span().resolved_at(Span::mixed_site())))
    };
    let template = Template::parse(literal, &mut diagnostics);
    let pieces = template.resolved(resolve, &mut diagnostics);
    diagnostics.finish(pieces)
}
