//! Reads the input of `#[derive(KeyPart)]`: a struct or an enum, whose fields are the key.

use proc_macro2::TokenStream;
use syn::{Attribute, Data, DeriveInput, Expr, Field, Path, Token, Type};

use crate::diagnostics::Diagnostics;
use crate::runtime_path;

/// The fields of all variants, markers too.
pub(crate) fn fields(data: &Data) -> Vec<&Field> {
    match data {
        Data::Struct(data) => data.fields.iter().collect(),
        Data::Enum(data) => data
            .variants
            .iter()
            .flat_map(|variant| &variant.fields)
            .collect(),
        Data::Union(_) => Vec::new(),
    }
}

/// A struct or an enum, and the runtime crate, if not the usual one.
pub(crate) fn parse(input: TokenStream) -> syn::Result<(DeriveInput, Option<Path>)> {
    let input: DeriveInput = syn::parse2(input)?;
    let mut diagnostics = Diagnostics::default();
    let krate = runtime_crate(&input.attrs, &mut diagnostics);
    if let Data::Union(data) = &input.data {
        let message =
            "a union does not know which of its fields is set: implement `KeyPart` by hand";
        diagnostics.error(data.union_token, message);
    }
    refuse_inner_options(&input.data, &mut diagnostics);
    diagnostics.finish(Some((input, krate)))
}

/// The runtime crate that `#[key(crate = …)]` names. Every other option is an error.
fn runtime_crate(attributes: &[Attribute], diagnostics: &mut Diagnostics) -> Option<Path> {
    let mut krate = None;
    for attribute in attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("key"))
    {
        let read = attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("crate") {
                return Err(meta.error("unknown option: `KeyPart` knows `#[key(crate = ::path)]`"));
            }
            meta.input.parse::<Token![=]>()?;
            krate = Some(runtime_path::read(&meta.input.parse::<Expr>()?)?);
            Ok(())
        });
        diagnostics.keep(read);
    }
    krate
}

/// `true` if `field` only marks a type parameter as used: it has no value, and is no part of the
/// key.
pub(crate) fn is_marker(field: &Field) -> bool {
    matches!(&field.ty, Type::Path(path) if path.path.segments.last().is_some_and(|name| name.ident == "PhantomData"))
}

/// Variants and fields have no options.
fn refuse_inner_options(data: &Data, diagnostics: &mut Diagnostics) {
    let variants = match data {
        Data::Enum(data) => data.variants.iter().map(|variant| &variant.attrs).collect(),
        Data::Struct(_) | Data::Union(_) => Vec::new(),
    };
    let fields = fields(data).into_iter().map(|field| &field.attrs);
    for attribute in variants.into_iter().chain(fields).flatten() {
        if attribute.path().is_ident("key") {
            let message =
                "every field is part of the key: to leave some out, implement `KeyPart` by hand";
            diagnostics.error(attribute, message);
        }
    }
}
