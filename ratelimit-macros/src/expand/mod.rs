//! Stage four: a plan into tokens. It cannot fail.
//!
//! Every token made here resolves at `mixed_site`, so that no name in it can clash with a name of
//! the user's, and no lint takes it for the user's code. A token that stands for something the user
//! wrote is located there, so that errors underline that.

pub(crate) mod body;
pub(crate) mod errors;
pub(crate) mod function;
pub(crate) mod guard;
pub(crate) mod key;
pub(crate) mod output_type;
pub(crate) mod receiver;
pub(crate) mod runtime;

use proc_macro2::TokenStream;

/// What the parts of one expansion share.
pub(crate) struct Context<'a> {
    /// A statement that imports what expansions use.
    pub(crate) import: TokenStream,
    pub(crate) receiver: receiver::Receiver<'a>,
    pub(crate) output: output_type::OutputType,
}
