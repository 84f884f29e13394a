//! `#[derive(KeyPart)]`: a type's fields, in order, as one part of a key.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{Attribute, Data, DataEnum, DeriveInput, Expr, Field, Fields, Ident, Index, Member, Path, Token, Type};

use crate::diag::Diagnostics;
use crate::{expand, runtime_path};

pub(crate) fn key_part(input: TokenStream) -> syn::Result<TokenStream> {
    let input: DeriveInput = syn::parse2(input)?;
    let mut diag = Diagnostics::default();
    let krate = options(&input, &mut diag);
    let krate = krate.as_ref();
    let private = expand::private(krate, Span::mixed_site());
    let mixed = Span::mixed_site();
    let body = match &input.data {
        Data::Struct(data) => of_struct(&data.fields, krate),
        Data::Enum(data) => of_enum(data, krate),
        Data::Union(data) => {
            diag.error(
                data.union_token,
                "a union does not know which of its fields is set: implement `KeyPart` by hand",
            );
            TokenStream::new()
        }
    };
    diag.finish()?;
    let name = &input.ident;
    let generics = bounded(&input, &private);
    let (parameters, arguments, conditions) = generics.split_for_impl();
    Ok(quote_spanned! {mixed=>
        #[automatically_derived]
        impl #parameters #private::KeyPart for #name #arguments #conditions {
            fn write_key(&self, __ratelimit_writer: &mut #private::KeyWriter<'_>) {
                #body
            }
        }
    })
}

/// The runtime crate that `#[key(crate = …)]` names. Every other option is an error.
fn options(input: &DeriveInput, diag: &mut Diagnostics) -> Option<Path> {
    let mut krate = None;
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("key")) {
        let read = attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("crate") {
                return Err(meta.error("unknown option: `KeyPart` knows `#[key(crate = ::path)]`"));
            }
            meta.input.parse::<Token![=]>()?;
            krate = Some(runtime_path::read(&meta.input.parse::<Expr>()?)?);
            Ok(())
        });
        diag.keep(read);
    }
    let fields: Vec<&Field> = match &input.data {
        Data::Struct(data) => data.fields.iter().collect(),
        Data::Enum(data) => data.variants.iter().flat_map(|variant| &variant.fields).collect(),
        Data::Union(_) => Vec::new(),
    };
    let variants = match &input.data {
        Data::Enum(data) => data.variants.iter().map(|variant| &variant.attrs).collect(),
        _ => Vec::new(),
    };
    for attribute in variants.into_iter().chain(fields.into_iter().map(|field| &field.attrs)).flatten() {
        refuse_inner(attribute, diag);
    }
    krate
}

fn refuse_inner(attribute: &Attribute, diag: &mut Diagnostics) {
    if attribute.path().is_ident("key") {
        let message = "every field is part of the key: to leave some out, implement `KeyPart` by hand";
        diag.error(attribute, message);
    }
}

fn of_struct(fields: &Fields, krate: Option<&Path>) -> TokenStream {
    if let Fields::Unnamed(unnamed) = fields
        && let [only] = unnamed.unnamed.iter().collect::<Vec<_>>().as_slice()
    {
        // A newtype is the same key as what it wraps.
        let span = only.ty.span().resolved_at(Span::mixed_site());
        let private = expand::private(krate, span);
        return quote_spanned!(span=> #private::KeyPart::write_key(&self.0, __ratelimit_writer));
    }
    let parts = members(fields).map(|(member, field)| {
        let span = field.ty.span().resolved_at(Span::mixed_site());
        let value = quote_spanned!(span=> &self.#member);
        part(field, &value, krate)
    });
    group("", parts, krate)
}

fn of_enum(data: &DataEnum, krate: Option<&Path>) -> TokenStream {
    let mixed = Span::mixed_site();
    if data.variants.is_empty() {
        return quote_spanned!(mixed=> match *self {});
    }
    let arms = data.variants.iter().map(|variant| {
        let name = &variant.ident;
        let bound: Vec<Ident> =
            (0..variant.fields.len()).map(|index| format_ident!("__ratelimit_field{index}", span = mixed)).collect();
        let named = members(&variant.fields).map(|(member, _)| member);
        let pattern = quote_spanned!(mixed=> Self::#name { #(#named: #bound),* });
        let parts = variant.fields.iter().zip(&bound).map(|(field, value)| {
            let mut value = value.clone();
            value.set_span(field.ty.span().resolved_at(mixed));
            part(field, &value.to_token_stream(), krate)
        });
        let written = group(&name.unraw().to_string(), parts, krate);
        quote_spanned!(mixed=> #pattern => #written)
    });
    quote_spanned!(mixed=> match self { #(#arms),* })
}

fn members(fields: &Fields) -> impl Iterator<Item = (Member, &Field)> {
    (0..).zip(fields).map(|(index, field)| {
        let unnamed = || Member::Unnamed(Index { index, span: Span::mixed_site() });
        (field.ident.clone().map_or_else(unnamed, Member::Named), field)
    })
}

/// One field, located at its type, so that a missing `KeyPart` is reported there.
fn part(field: &Field, value: &TokenStream, krate: Option<&Path>) -> TokenStream {
    let span = field.ty.span().resolved_at(Span::mixed_site());
    let private = expand::private(krate, span);
    quote_spanned!(span=> #private::KeyWriter::part(__ratelimit_writer, #value);)
}

/// The parts in one frame, so that `(a, b)` and `(ab, "")` differ.
fn group(name: &str, parts: impl Iterator<Item = TokenStream>, krate: Option<&Path>) -> TokenStream {
    let mixed = Span::mixed_site();
    let private = expand::private(krate, mixed);
    let parts: Vec<_> = parts.collect();
    if parts.is_empty() {
        return quote_spanned!(mixed=> #private::KeyWriter::group(__ratelimit_writer, #name, |_| {}));
    }
    quote_spanned! {mixed=>
        #private::KeyWriter::group(__ratelimit_writer, #name, |__ratelimit_writer| { #(#parts)* })
    }
}

/// The type's generics, with `KeyPart` for each field's type that mentions a type parameter.
fn bounded(input: &DeriveInput, private: &TokenStream) -> syn::Generics {
    let mut generics = input.generics.clone();
    let parameters: Vec<&Ident> = input.generics.type_params().map(|parameter| &parameter.ident).collect();
    if parameters.is_empty() {
        return generics;
    }
    let fields: Vec<&Field> = match &input.data {
        Data::Struct(data) => data.fields.iter().collect(),
        Data::Enum(data) => data.variants.iter().flat_map(|variant| &variant.fields).collect(),
        Data::Union(_) => Vec::new(),
    };
    let mut bounds: Vec<TokenStream> = Vec::new();
    for field in fields {
        let mentioned = Mentioned::in_type(&field.ty);
        let used = parameters.iter().filter(|parameter| mentioned.0.contains(parameter));
        if mentioned.0.contains(&&input.ident) {
            // A recursive type would need itself to be `KeyPart`.
            bounds.extend(used.map(ToTokens::to_token_stream));
        } else if used.count() > 0 {
            bounds.push(field.ty.to_token_stream());
        }
    }
    let clause = generics.make_where_clause();
    for bound in bounds {
        let predicate = quote!(#bound: #private::KeyPart);
        if let Ok(predicate) = syn::parse2(predicate) {
            clause.predicates.push(predicate);
        }
    }
    generics
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
        self.0.extend(path.segments.first().map(|segment| &segment.ident));
        self.0.extend(path.segments.last().map(|segment| &segment.ident));
        visit::visit_path(self, path);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn derived(item: &str) -> Result<String, Vec<String>> {
        let plain = |tokens: TokenStream| tokens.to_string().split_whitespace().collect::<String>();
        let tokens = key_part(item.parse().unwrap());
        tokens.map(plain).map_err(|errors| errors.into_iter().map(|e| e.to_string()).collect())
    }

    #[test]
    fn shapes() {
        for (item, part) in [
            ("struct A;", "KeyWriter::group(__ratelimit_writer,\"\",|_|{})"),
            ("struct A(u8);", "KeyPart::write_key(&self.0,__ratelimit_writer)"),
            ("struct A { b: B, r#type: T }", "part(__ratelimit_writer,&self.b);"),
            ("struct A { b: B, r#type: T }", "part(__ratelimit_writer,&self.r#type);"),
            ("struct A(B, C);", "part(__ratelimit_writer,&self.1);"),
            ("struct A { only: B }", "KeyWriter::group(__ratelimit_writer,\"\",|__ratelimit_writer|{"),
            ("enum A {}", "match*self{}"),
            ("enum A { B, C(u8) }", "Self::B{}=>"),
            ("enum A { r#Box(u8) }", "KeyWriter::group(__ratelimit_writer,\"Box\","),
            ("enum A { B { x: u8 } }", "Self::B{x:__ratelimit_field0}=>"),
            ("enum A { B(u8, u8) }", "Self::B{0:__ratelimit_field0,1:__ratelimit_field1}=>"),
            (
                "struct A<T: X, const N: usize>(Vec<T>, u8);",
                "forA<T,N>whereVec<T>:::ratelimit_runtime::__private::KeyPart{",
            ),
            ("struct A<T>(Option<Box<A<T>>>, u8);", "whereT:::ratelimit_runtime::__private::KeyPart{"),
            ("#[key(crate = ::x)] struct A;", "impl::x::__private::KeyPartforA"),
            ("#[key(crate = \"::x\")] struct A;", "impl::x::__private::KeyPartforA"),
        ] {
            let actual = derived(item).unwrap();
            assert!(actual.contains(part), "{item}\n{actual}");
        }
    }

    #[test]
    fn refused() {
        for (item, part) in [
            ("union A { b: u8 }", "implement `KeyPart` by hand"),
            ("#[key(rename = \"x\")] struct A;", "unknown option"),
            ("#[key(crate = x)] struct A;", "relative path"),
            ("struct A { #[key(skip)] b: u8 }", "every field is part of the key"),
            ("enum A { #[key(skip)] B }", "every field is part of the key"),
        ] {
            let errors = derived(item).unwrap_err();
            assert_eq!(errors.len(), 1, "{item}: {errors:?}");
            assert!(errors.iter().all(|e| e.contains(part)), "{item}: {errors:?}");
        }
    }
}
