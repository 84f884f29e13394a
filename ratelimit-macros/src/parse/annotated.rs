//! The first stage's result: a function and the arguments of all its attributes. The topmost one
//! expands first, and takes those below it, so that one guard charges all of them or none.

use proc_macro2::{Span, TokenStream};
use syn::{Meta, Path};

use crate::diagnostics::Diagnostics;
use crate::parse::arguments::Arguments;
use crate::parse::attribute;
use crate::parse::function::Function;

pub(crate) struct Annotated {
    /// The function without its `#[rate_limit]` attributes, so that each is reported and expanded
    /// once.
    pub(crate) function: Function,
    /// The arguments of each attribute, in written order.
    pub(crate) attributes: Vec<Arguments>,
}

/// Reads `item`, annotated with `#[rate_limit(topmost)]` and perhaps with more of them below.
pub(crate) fn parse(
    topmost: TokenStream,
    item: TokenStream,
    diagnostics: &mut Diagnostics,
) -> syn::Result<Annotated> {
    let mut function: Function = syn::parse2(item)?;
    let mut attributes = vec![attribute::read(topmost, Span::call_site(), diagnostics)];
    for stacked in function.take_stacked() {
        let (tokens, whole) = match &stacked.meta {
            Meta::List(list) => (list.tokens.clone(), list.delimiter.span().join()),
            Meta::Path(path) => (TokenStream::new(), last_span(path)),
            Meta::NameValue(value) => {
                diagnostics.error(
                    value,
                    "write the arguments in parentheses: `#[rate_limit(…)]`",
                );
                continue;
            }
        };
        attributes.push(attribute::read(tokens, whole, diagnostics));
    }
    Ok(Annotated {
        function,
        attributes,
    })
}

fn last_span(path: &Path) -> Span {
    path.segments
        .last()
        .map_or_else(Span::call_site, |segment| segment.ident.span())
}
