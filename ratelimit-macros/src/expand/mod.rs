//! Stage four: a plan into tokens. It cannot fail.
//!
//! Every token made here resolves at `mixed_site`, so that no name in it can clash with a name of
//! the user's, and no lint takes it for the user's code. A token that stands for user code is
//! located there, so that errors underline that.

#[macro_use]
pub(crate) mod spans;

pub(crate) mod body;
pub(crate) mod errors;
pub(crate) mod function;
pub(crate) mod guard;
pub(crate) mod key;
pub(crate) mod output_type;
pub(crate) mod receiver;

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;
use syn::Path;

use crate::expand::spans::located;

/// Shared by all parts of one expansion.
pub(crate) struct Context<'a> {
    /// A statement that imports the names that expansions use.
    pub(crate) import: TokenStream,
    pub(crate) receiver: receiver::Receiver<'a>,
    pub(crate) output: output_type::OutputType,
}

/// A statement that imports the runtime's private module as `__ratelimit`. Where there is no
/// runtime crate, the compiler says so here and nowhere else. `krate`, a path from the user, keeps
/// its place.
pub(crate) fn import(krate: Option<&Path>) -> TokenStream {
    let Some(krate) = krate else {
        return quote_mixed!(
            use ::ratelimit_runtime::__private as __ratelimit;
        );
    };
    let last = krate.segments.last().map(|last| located(&last.ident));
    let span = last.unwrap_or_else(Span::mixed_site);
    // Where the path leads to another crate, the error names the runtime.
    quote_spanned!(span=> use #krate::__ratelimit_runtime as __ratelimit;)
}
