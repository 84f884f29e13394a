//! `#[derive(KeyPart)]`: a type's fields, in order, as one part of a key.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens as _, format_ident, quote_spanned};
use syn::ext::IdentExt as _;
use syn::{Data, DataEnum, DeriveInput, Field, Fields, Ident, Index, Member, Path, WherePredicate};

use crate::expand::import;
use crate::expand::spans::located;
use crate::parse::key_part::is_marker;

/// The implementation of `KeyPart`, for which the types in `bounds` have to be `KeyPart`.
pub(crate) fn expand(
    input: DeriveInput,
    krate: Option<&Path>,
    bounds: &[TokenStream],
) -> TokenStream {
    let DeriveInput {
        ident,
        mut generics,
        data,
        ..
    } = input;
    let kind = match &data {
        Data::Struct(data) => newtype(&data.fields).map(|(_, field)| kind(field)),
        Data::Enum(_) | Data::Union(_) => None,
    };
    let body = match &data {
        Data::Struct(data) => of_struct(&data.fields),
        Data::Enum(data) => of_enum(data),
        Data::Union(_) => TokenStream::new(),
    };
    let bounds = bounds
        .iter()
        .map(|ty| quote_mixed!(#ty: __ratelimit::KeyPart));
    let predicates = bounds.flat_map(syn::parse2::<WherePredicate>);
    generics.make_where_clause().predicates.extend(predicates);
    let name = ours(&ident);
    let (parameters, arguments, conditions) = generics.split_for_impl();
    let import = import(krate);
    quote_mixed! {
        const _: () = {
            #import
            #[automatically_derived]
            impl #parameters __ratelimit::KeyPart for #name #arguments #conditions {
                #kind
                fn write_key(&self, __ratelimit_writer: &mut __ratelimit::KeyWriter<'_>) {
                    #body
                }
            }
        };
    }
}

fn of_struct(fields: &Fields) -> TokenStream {
    if let Some((member, only)) = newtype(fields) {
        // A newtype is the same key as its field.
        let span = located(&only.ty);
        return quote_spanned!(span=> __ratelimit::KeyPart::write_key(&self.#member, __ratelimit_writer));
    }
    let parts = members(fields).map(|(member, field)| {
        let span = located(&field.ty);
        let value = quote_spanned!(span=> &self.#member);
        part(field, &value)
    });
    group("", parts)
}

/// The only field of a tuple struct that is part of the key.
fn newtype(fields: &Fields) -> Option<(Member, &Field)> {
    let mut members = members(fields).filter(|_| matches!(fields, Fields::Unnamed(_)));
    members.next().filter(|_| members.next().is_none())
}

/// A newtype is of the same kind as its field.
fn kind(field: &Field) -> TokenStream {
    let ty = &field.ty;
    quote_mixed! {
        const KIND: __ratelimit::KeyKind = {
            use __ratelimit::AnyKind as _;
            __ratelimit::FieldKind::<#ty>::KIND
        };
    }
}

fn of_enum(data: &DataEnum) -> TokenStream {
    if data.variants.is_empty() {
        return quote_mixed!(match *self {});
    }
    let arms = data.variants.iter().map(|variant| {
        // If the variant is deprecated, its own definition is no use of it.
        let name = ours(&variant.ident);
        let (named, fields): (Vec<_>, Vec<_>) = members(&variant.fields).unzip();
        let bound: Vec<Ident> = (0..fields.len())
            .map(|index| format_ident!("__ratelimit_field{index}", span = Span::mixed_site()))
            .collect();
        let rest = (fields.len() < variant.fields.len()).then(|| quote_mixed!(..));
        let pattern = quote_mixed!(Self::#name { #(#named: #bound,)* #rest });
        let parts = fields.iter().zip(&bound).map(|(field, value)| {
            let mut value = value.clone();
            value.set_span(located(&field.ty));
            part(field, &value.to_token_stream())
        });
        let written = group(&variant.ident.unraw().to_string(), parts);
        quote_mixed!(#pattern => #written)
    });
    quote_mixed!(match self { #(#arms),* })
}

/// The fields that are part of the key, each located at its type.
fn members(fields: &Fields) -> impl Iterator<Item = (Member, &Field)> {
    (0..)
        .zip(fields)
        .filter(|(_, field)| !is_marker(field))
        .map(|(index, field)| {
            let span = located(&field.ty);
            let member = match &field.ident {
                Some(name) => {
                    let mut name = name.clone();
                    name.set_span(span);
                    Member::Named(name)
                }
                None => Member::Unnamed(Index { index, span }),
            };
            (member, field)
        })
}

/// `name` with the location where it is written and the hygiene of this expansion.
fn ours(name: &Ident) -> Ident {
    let mut name = name.clone();
    name.set_span(located(&name));
    name
}

/// One field, located at its type, so that a missing `KeyPart` is reported there.
fn part(field: &Field, value: &TokenStream) -> TokenStream {
    let span = located(&field.ty);
    quote_spanned!(span=> __ratelimit::KeyWriter::part(__ratelimit_writer, #value);)
}

/// The parts in one frame, so that `(a, b)` and `(ab, "")` differ.
fn group(name: &str, parts: impl Iterator<Item = TokenStream>) -> TokenStream {
    let parts: Vec<_> = parts.collect();
    if parts.is_empty() {
        return quote_mixed!(__ratelimit::KeyWriter::group(__ratelimit_writer, #name, |_| {}));
    }
    quote_mixed! {
        __ratelimit::KeyWriter::group(__ratelimit_writer, #name, |__ratelimit_writer| { #(#parts)* })
    }
}
