//! `key!("<tenant>:<email>")`: the key that an attribute with this template uses.

use proc_macro2::TokenStream;
use syn::Path;

use crate::expand::import;
use crate::expand::key::pieces;
use crate::parse::template::Piece;

pub(crate) fn expand(parts: &[Piece], krate: Option<&Path>) -> TokenStream {
    let steps = pieces::expand(parts, "KeyBuilder", "__ratelimit_key");
    let import = import(krate);
    quote_mixed! {
        {
            #import
            let mut __ratelimit_key = __ratelimit::KeyBuilder::new();
            #(#steps)*
            __ratelimit::KeyBuilder::finish(__ratelimit_key)
        }
    }
}
