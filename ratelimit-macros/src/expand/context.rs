//! What the parts of one expansion share.

use proc_macro2::TokenStream;

use crate::expand::output_type::OutputType;
use crate::expand::receiver::Receiver;

pub(crate) struct Context<'a> {
    /// A statement that imports what expansions use.
    pub(crate) import: TokenStream,
    pub(crate) receiver: Receiver<'a>,
    pub(crate) output: OutputType,
}
