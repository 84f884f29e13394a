//! `key!("<tenant>:<email>")`: the key that an attribute with this template uses.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;
use syn::parse::{Parse, ParseStream};
use syn::{Error, Expr, LitStr, Path, Token};

use crate::diag::Diagnostics;
use crate::plan::Value;
use crate::template::{Piece, Template};
use crate::{args, expand, runtime_path, template};

struct Input {
    krate: Option<Path>,
    template: LitStr,
}

impl Parse for Input {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut krate = None;
        if input.peek(Token![crate]) && input.peek2(Token![=]) {
            input.parse::<Token![crate]>()?;
            input.parse::<Token![=]>()?;
            krate = Some(runtime_path::read(&input.parse()?)?);
            input.parse::<Token![,]>()?;
        }
        if input.is_empty() {
            return Err(Error::new(Span::call_site(), "which key? write a template, `key!(\"<tenant>:<email>\")`"));
        }
        let expr: Expr = input.parse()?;
        let Some(template) = args::as_str(&expr).cloned() else {
            return Err(Error::new_spanned(expr, "write the template as a string literal: `key!(\"<email>\")`"));
        };
        input.parse::<Option<Token![,]>>()?;
        if !input.is_empty() {
            return Err(input.error(
                "nothing follows the template: its placeholders are names in scope, as in `key!(\"<email>\")`",
            ));
        }
        Ok(Self { krate, template })
    }
}

pub(crate) fn key(input: TokenStream) -> syn::Result<TokenStream> {
    let Input { krate, template: literal } = syn::parse2(input)?;
    let mixed = Span::mixed_site();
    let private = expand::private(krate.as_ref(), mixed);
    let mut diag = Diagnostics::default();
    let mut steps = Vec::new();
    if literal.value().is_empty() {
        diag.error(&literal, "an empty key: write a template, `key!(\"<email>\")`");
    }
    let template = Template::parse(&literal, &mut diag);
    for piece in &template.pieces {
        match piece {
            Piece::Text(text) => {
                steps.push(quote_spanned!(mixed=> #private::KeyBuilder::text(&mut __ratelimit_key, #text);));
            }
            Piece::Place(place) => {
                let root = template::ident(&place.root, literal.span());
                if let Some(value) = root.and_then(|root| Value::new(place, root, literal.span())) {
                    let span = literal.span().resolved_at(mixed);
                    let value = expand::value(&value);
                    let private = expand::private(krate.as_ref(), span);
                    steps.push(quote_spanned!(span=> #private::KeyBuilder::part(&mut __ratelimit_key, &#value);));
                } else {
                    let message = format!("`{}` is not a name that can have a value", place.root);
                    diag.push(Error::new(literal.span(), template.source.point(&place.at, &message)));
                }
            }
        }
    }
    diag.finish()?;
    Ok(quote_spanned! {mixed=>
        {
            let mut __ratelimit_key = #private::KeyBuilder::new();
            #(#steps)*
            #private::KeyBuilder::finish(__ratelimit_key)
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn expansion() {
        let tokens = key("\"<a>:{b.c()}\"".parse().unwrap()).unwrap().to_string();
        assert!(tokens.contains("part (& mut __ratelimit_key , & a)"), "{tokens}");
        assert!(tokens.contains("text (& mut __ratelimit_key , \":\")"), "{tokens}");
        assert!(tokens.contains("part (& mut __ratelimit_key , & b . c ())"), "{tokens}");
        let tokens = key("crate = ::x, \"k\",".parse().unwrap()).unwrap().to_string();
        assert!(tokens.contains(":: x :: __private :: KeyBuilder :: new ()"), "{tokens}");
    }

    #[test]
    fn refused() {
        for (text, part) in [
            ("", "which key?"),
            ("email", "as a string literal"),
            ("\"<a>\", a", "nothing follows"),
            ("\"\"", "an empty key"),
            ("\"<a\"", "never closed"),
            ("\"<crate>\"", "is not a name that can have a value"),
            ("crate = x, \"a\"", "relative path"),
        ] {
            let error = key(text.parse().unwrap()).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
