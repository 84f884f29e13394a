//! The value of a placeholder: `root.field.0.method()`.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens as _, quote_spanned};

use crate::check::key::value::Value;
use crate::parse::placeholder::Step;

pub(crate) fn expand(value: &Value) -> TokenStream {
    let mut tokens = value.root.to_token_stream();
    let span = value.root.span().resolved_at(Span::mixed_site());
    for step in &value.steps {
        tokens.extend(match step {
            Step::Field(member) => quote_spanned!(span=> .#member),
            Step::Call(method) => quote_spanned!(span=> .#method()),
        });
    }
    tokens
}
