//! The input of `#[derive(KeyPart)]`.

use proc_macro2::TokenStream;
use syn::{Attribute, Data, DataEnum, DeriveInput, Expr, Field, Fields, Generics, Ident, Path, Token, Type};

use crate::diagnostics::Diagnostics;
use crate::runtime_path;

pub(crate) struct KeyPartInput {
    pub(crate) name: Ident,
    pub(crate) generics: Generics,
    pub(crate) data: KeyPartData,
    /// The runtime crate, if not the usual one.
    pub(crate) krate: Option<Path>,
}

pub(crate) enum KeyPartData {
    Struct(Fields),
    Enum(DataEnum),
}

impl KeyPartData {
    /// All of them, markers too.
    pub(crate) fn fields(&self) -> Vec<&Field> {
        match self {
            Self::Struct(fields) => fields.iter().collect(),
            Self::Enum(data) => data.variants.iter().flat_map(|variant| &variant.fields).collect(),
        }
    }
}

pub(crate) fn parse(input: TokenStream) -> syn::Result<KeyPartInput> {
    let DeriveInput { attrs, ident, generics, data, .. } = syn::parse2(input)?;
    let mut diagnostics = Diagnostics::default();
    let krate = runtime_crate(&attrs, &mut diagnostics);
    let data = match data {
        Data::Struct(data) => Some(KeyPartData::Struct(data.fields)),
        Data::Enum(data) => Some(KeyPartData::Enum(data)),
        Data::Union(data) => {
            let message = "a union does not know which of its fields is set: implement `KeyPart` by hand";
            diagnostics.error(data.union_token, message);
            None
        }
    };
    if let Some(data) = &data {
        refuse_inner_options(data, &mut diagnostics);
    }
    diagnostics.finish(data.map(|data| KeyPartInput { name: ident, generics, data, krate }))
}

/// The runtime crate that `#[key(crate = …)]` names. Every other option is an error.
fn runtime_crate(attributes: &[Attribute], diagnostics: &mut Diagnostics) -> Option<Path> {
    let mut krate = None;
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("key")) {
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

/// Whether `field` only marks a type parameter as used: it has no value, and is no part of the key.
pub(crate) fn is_marker(field: &Field) -> bool {
    matches!(&field.ty, Type::Path(path) if path.path.segments.last().is_some_and(|name| name.ident == "PhantomData"))
}

/// Variants and fields have no options.
fn refuse_inner_options(data: &KeyPartData, diagnostics: &mut Diagnostics) {
    let variants = match data {
        KeyPartData::Struct(_) => Vec::new(),
        KeyPartData::Enum(data) => data.variants.iter().map(|variant| &variant.attrs).collect(),
    };
    let fields = data.fields().into_iter().map(|field| &field.attrs);
    for attribute in variants.into_iter().chain(fields).flatten() {
        if attribute.path().is_ident("key") {
            let message = "every field is part of the key: to leave some out, implement `KeyPart` by hand";
            diagnostics.error(attribute, message);
        }
    }
}
