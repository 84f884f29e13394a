//! Which types have to be `KeyPart` for a derived `KeyPart`.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::visit::{self, Visit};
use syn::{DeriveInput, Ident, Path, Type};

use crate::parse::key_part::{fields, is_marker};

/// The type of each field that mentions a type parameter.
pub(crate) fn plan(input: &DeriveInput) -> Vec<TokenStream> {
    let parameters: Vec<&Ident> = input
        .generics
        .type_params()
        .map(|parameter| &parameter.ident)
        .collect();
    let mut bounded = Vec::new();
    for field in fields(&input.data)
        .into_iter()
        .filter(|field| !is_marker(field))
    {
        let mentioned = Mentioned::in_type(&field.ty);
        let used = parameters
            .iter()
            .filter(|parameter| mentioned.0.contains(parameter));
        if mentioned.0.contains(&&input.ident) {
            // A recursive type would need itself to be `KeyPart`.
            bounded.extend(used.map(ToTokens::to_token_stream));
        } else if used.count() > 0 {
            bounded.push(field.ty.to_token_stream());
        }
    }
    bounded
}

/// The first segment of every path in a type, and the last.
struct Mentioned<'a>(Vec<&'a Ident>);

impl<'a> Mentioned<'a> {
    fn in_type(ty: &'a Type) -> Self {
        let mut mentioned = Self(Vec::new());
        mentioned.visit_type(ty);
        mentioned
    }
}

impl<'a> Visit<'a> for Mentioned<'a> {
    fn visit_path(&mut self, path: &'a Path) {
        self.0
            .extend(path.segments.first().map(|segment| &segment.ident));
        self.0
            .extend(path.segments.last().map(|segment| &segment.ident));
        visit::visit_path(self, path);
    }
}
