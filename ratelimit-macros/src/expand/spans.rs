//! The locations of an expansion's tokens, and the hygiene by which they resolve.

use proc_macro2::Span;
use syn::spanned::Spanned;

/// Tokens that resolve at `mixed_site`.
macro_rules! quote_mixed {
    ($($tokens:tt)*) => {
        ::quote::quote_spanned!(::proc_macro2::Span::mixed_site()=> $($tokens)*)
    };
}

/// The location of the user's `code`, for a token that stands for this code.
pub(crate) fn located(code: &impl Spanned) -> Span {
    code.span().resolved_at(Span::mixed_site())
}
