//! The bounds of a derived `KeyPart`, by which the implementation for a generic type compiles.
//!
//! They are on the types of fields, not on the type parameters: where a field is a `T::Id`, `T`
//! itself need not be `KeyPart`.

use proc_macro2::TokenStream;
use quote::ToTokens as _;
use syn::{DeriveInput, Ident};

use crate::check::function::names::mentions;
use crate::parse::key_part::{fields, is_marker};

/// The type of each field that mentions a type parameter.
pub(crate) fn plan(input: &DeriveInput) -> Vec<TokenStream> {
    let mut bounded = Vec::new();
    for field in fields(&input.data) {
        if is_marker(field) {
            continue;
        }
        let ty = field.ty.to_token_stream();
        let mentioned = |name: &Ident| mentions(&ty, &name.to_string());
        let parameters = input
            .generics
            .type_params()
            .map(|parameter| &parameter.ident);
        let mut used = parameters
            .filter(|parameter| mentioned(parameter))
            .peekable();
        if mentioned(&input.ident) || mentions(&ty, "Self") {
            // A recursive type would need itself to be `KeyPart`.
            bounded.extend(used.map(Ident::to_token_stream));
        } else if used.peek().is_some() {
            bounded.push(ty);
        }
    }
    bounded
}
