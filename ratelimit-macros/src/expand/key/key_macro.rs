//! `key!("<tenant>:<email>")`: the key that an attribute with this template uses.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;
use syn::Path;

use crate::check::key::value::Value;
use crate::expand::key::value;
use crate::expand::runtime::Runtime;
use crate::parse::template::Piece;

pub(crate) fn expand(pieces: &[Piece<Value>], krate: Option<Path>) -> TokenStream {
    let mixed = Span::mixed_site();
    let runtime = Runtime { krate };
    let steps = pieces.iter().map(|piece| match piece {
        Piece::Text(text) => {
            let builder_text = runtime.builder_text(mixed);
            quote_spanned!(mixed=> #builder_text(&mut __ratelimit_key, #text);)
        }
        Piece::Placeholder(part) => {
            let span = part.root.span().resolved_at(mixed);
            let part = value::expand(part);
            let builder_part = runtime.builder_part(span);
            quote_spanned!(span=> #builder_part(&mut __ratelimit_key, &#part);)
        }
    });
    let import = runtime.import();
    let (new, finish) = (runtime.key_builder(mixed), runtime.builder_finish(mixed));
    quote_spanned! {mixed=>
        {
            #import
            let mut __ratelimit_key = #new();
            #(#steps)*
            #finish(__ratelimit_key)
        }
    }
}
