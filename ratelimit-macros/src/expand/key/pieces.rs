//! The pieces of a template, as calls of the key's builder. An attribute and `key!` render by the
//! same calls, so that they make the same key.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens as _, quote_spanned};

use crate::expand::spans::located;
use crate::parse::placeholder::{Placeholder, Step};
use crate::parse::template::Piece;

/// Statements: each piece is given to the local `variable`, a `builder` of the runtime.
pub(crate) fn expand(
    pieces: &[Piece],
    builder: &str,
    variable: &str,
) -> impl Iterator<Item = TokenStream> {
    pieces.iter().map(move |piece| {
        let span = match piece {
            Piece::Text(_) => Span::mixed_site(),
            // An error about the value underlines the placeholder, or the argument.
            Piece::Placeholder(part) => located(&part.ident),
        };
        let (builder, variable) = (Ident::new(builder, span), Ident::new(variable, span));
        let call = match piece {
            Piece::Text(text) => quote_spanned!(span=> text(&mut #variable, #text)),
            Piece::Placeholder(part) => {
                let part = value(part, span);
                quote_spanned!(span=> part(&mut #variable, &#part))
            }
        };
        let allow = matches!(piece, Piece::Placeholder(part) if part.root.starts_with('_'))
            .then(|| quote_mixed!(#[allow(clippy::used_underscore_binding)]));
        quote_spanned!(span=> #allow __ratelimit::#builder::#call;)
    })
}

/// The template that these are the pieces of, as text: `<user.id>:<user.email()>`.
pub(crate) fn written(pieces: &[Piece]) -> String {
    let each = pieces.iter().map(|piece| match piece {
        Piece::Text(text) => text
            .chars()
            .flat_map(|c| std::iter::repeat_n(c, if "<>{}".contains(c) { 2 } else { 1 }))
            .collect(),
        Piece::Placeholder(Placeholder { root, steps, .. }) => {
            let step = |step: &Step| match step {
                Step::Field(member) => format!(".{}", member.to_token_stream()),
                Step::Call(method) => format!(".{method}()"),
            };
            format!("<{root}{}>", steps.iter().map(step).collect::<String>())
        }
    });
    each.collect()
}

/// `root.field.0.method()`.
fn value(Placeholder { ident, steps, .. }: &Placeholder, span: Span) -> TokenStream {
    let mut tokens = ident.to_token_stream();
    for step in steps {
        tokens.extend(match step {
            Step::Field(member) => quote_spanned!(span=> .#member),
            Step::Call(method) => quote_spanned!(span=> .#method()),
        });
    }
    tokens
}
