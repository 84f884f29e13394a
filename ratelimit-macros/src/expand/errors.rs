//! Errors as tokens, where the user's code still has to make sense.

use proc_macro2::TokenStream;
use quote::quote;
use syn::Error;

/// The errors, and `item` as it was, so that what uses it still compiles.
pub(crate) fn beside(errors: &Error, item: TokenStream) -> TokenStream {
    let mut tokens = errors.to_compile_error();
    tokens.extend(item);
    tokens
}

/// The errors as an expression: several can only stand in a block.
pub(crate) fn in_a_block(errors: &Error) -> TokenStream {
    let errors = errors.to_compile_error();
    quote!({ #errors })
}
