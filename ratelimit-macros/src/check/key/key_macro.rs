//! The template of `key!`, whose placeholders are names in scope.

use proc_macro2::Span;
use syn::Error;

use crate::diagnostics::Diagnostics;
use crate::parse::key_macro::KeyInput;
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
    let Template {
        literal: text,
        pieces,
        ..
    } = Template::parse(literal, &mut diagnostics);
    let mut resolved = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => resolved.push(Piece::Text(text)),
            Piece::Placeholder(placeholder) => {
                if matches!(placeholder.root.as_str(), "crate" | "super" | "Self") {
                    let message =
                        format!("`{}` is not a name that can have a value", placeholder.root);
                    diagnostics.push(Error::new(
                        literal.span(),
                        text.point(&placeholder.at, &message),
                    ));
                }
                let mut root = placeholder.ident.clone();
                root.set_span(literal.span());
                // As in the attribute: no suggestion to replace the whole template by a field.
                let steps = literal.span().resolved_at(Span::mixed_site());
                resolved.push(Piece::Placeholder(placeholder.of(root, steps)));
            }
        }
    }
    diagnostics.finish(Some(resolved))
}
