//! The stages of the three macros, in order.

use proc_macro2::TokenStream;

use crate::diagnostics::Diagnostics;
use crate::parse::key_macro::KeyInput;
use crate::{check, expand, parse, plan};

/// Expands `#[rate_limit(arguments)] item`.
pub(crate) fn rate_limit(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut diagnostics = Diagnostics::default();
    let annotated = match parse::annotated::parse(arguments, item.clone(), &mut diagnostics) {
        Ok(annotated) => annotated,
        Err(errors) => return expand::errors::beside(&errors, item),
    };
    match check::checked::check(annotated, diagnostics) {
        Ok(checked) => expand::function::expand(&plan::plan(checked)),
        Err((errors, function)) => expand::errors::beside_function(&errors, &function),
    }
}

/// Expands `key!(input)`.
pub(crate) fn key(input: TokenStream) -> TokenStream {
    let checked = syn::parse2(input)
        .and_then(|input: KeyInput| Ok((check::key::key_macro::check(&input)?, input.krate)));
    match checked {
        Ok((pieces, krate)) => expand::key::key_macro::expand(&pieces, krate.as_ref()),
        Err(errors) => {
            // As an expression: several can only stand in a block.
            let errors = errors.to_compile_error();
            quote::quote!({ #errors })
        }
    }
}

/// Expands `#[derive(KeyPart)] input`.
pub(crate) fn key_part(input: TokenStream) -> TokenStream {
    match parse::key_part::parse(input) {
        Ok((input, krate)) => {
            let bounds = plan::bounds::plan(&input);
            expand::key::key_part::expand(input, krate.as_ref(), &bounds)
        }
        Err(errors) => errors.into_compile_error(),
    }
}
