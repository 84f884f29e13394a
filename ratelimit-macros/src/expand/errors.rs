//! Errors as tokens, beside the user's code, which has to compile apart from them.

use proc_macro2::TokenStream;
use quote::ToTokens as _;
use syn::{Error, Ident};

use crate::check::function::scope::Scope;
use crate::expand::body;
use crate::parse::function::Function;

/// The errors, and `item` as it was, so that code that uses it still compiles.
pub(crate) fn beside(errors: &Error, item: TokenStream) -> TokenStream {
    let mut tokens = errors.to_compile_error();
    tokens.extend(item);
    tokens
}

/// The errors, and `function` as it was, but with all arguments used: the errors may replace the
/// code that uses one, and a warning about it would report the same mistake twice.
pub(crate) fn beside_function(errors: &Error, function: &Function) -> TokenStream {
    let mut tokens = errors.to_compile_error();
    let bindings = Scope::of(&function.signature).bindings;
    let used: Vec<Ident> = bindings
        .into_iter()
        .filter(|binding| !binding.conditional)
        .map(|binding| binding.ident)
        .collect();
    let statement = (!used.is_empty()).then(|| quote_mixed!(let _ = (#(&#used,)*);));
    tokens.extend(match statement {
        Some(statement) => function.with_body(&body::prepended(&function.body, &statement, None)),
        None => function.to_token_stream(),
    });
    tokens
}
