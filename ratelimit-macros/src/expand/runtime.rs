//! The runtime crate, as expansions name it.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;
use syn::Path;

/// A statement that gives the expansion its name for what it may use, `__ratelimit`. Where there is
/// no runtime crate, this is the one place where the compiler says so. A path that the user gave,
/// `krate`, stays where it was written.
pub(crate) fn import(krate: Option<&Path>) -> TokenStream {
    let mixed = Span::mixed_site();
    let Some(krate) = krate else {
        return quote_spanned!(mixed=> use ::ratelimit_runtime::__private as __ratelimit;);
    };
    let span = krate.segments.last().map_or(mixed, |last| last.ident.span().resolved_at(mixed));
    // Where another crate is meant by mistake, the name in the error says what was expected there.
    quote_spanned!(span=> use #krate::__ratelimit_runtime as __ratelimit;)
}
