//! The arguments that a body under `count` takes with it into its block.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::ext::IdentExt as _;
use syn::{Ident, LitStr};

use crate::check::body::{Body, Shape};
use crate::check::count::Count;
use crate::parse::function::Function;

/// They are dropped in this order, the last one first, as they are without the block. One that only the key names stays
/// where it is, so that lints find it, and so does one that `count` looks at.
pub(crate) fn plan(function: &Function, body: &Body, counts: &[Count]) -> Vec<Ident> {
    if let Shape::Future(_) = body.shape {
        // There, what the body names first is dropped first, with a block around it and without.
        return Vec::new();
    }
    let looked_at =
        |name: &str| counts.iter().any(|count| matches!(count, Count::By(expr) if names(expr.to_token_stream(), name)));
    let taken = body.scope.bindings.iter().rev().filter(|binding| {
        let name = binding.text();
        let named = name.starts_with('_') || names(function.body.stream(), &name);
        named && !binding.conditional && !looked_at(&name)
    });
    taken.map(|binding| binding.ident.clone()).collect()
}

/// Whether `name` is among `tokens`, or in a text that is formatted.
fn names(tokens: TokenStream, name: &str) -> bool {
    tokens.into_iter().any(|tree| match tree {
        TokenTree::Ident(ident) => ident.unraw() == name,
        TokenTree::Group(group) => names(group.stream(), name),
        TokenTree::Literal(literal) => {
            let text = syn::parse2::<LitStr>(TokenTree::Literal(literal).into());
            text.is_ok_and(|text| text.value().contains(&format!("{{{name}")))
        }
        TokenTree::Punct(_) => false,
    })
}
