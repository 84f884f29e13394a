//! Reads the input of `key!`, which makes the key of an attribute by hand: a template, after the
//! path of the runtime crate where that has another name.

use proc_macro2::Span;
use syn::parse::{Parse, ParseStream};
use syn::{Error, Expr, LitStr, Path, Token};

use crate::literal::as_str;
use crate::runtime_path;

pub(crate) struct KeyInput {
    /// The runtime crate, if not the usual one.
    pub(crate) krate: Option<Path>,
    pub(crate) template: LitStr,
}

impl Parse for KeyInput {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut krate = None;
        if input.peek(Token![crate]) && input.peek2(Token![=]) {
            input.parse::<Token![crate]>()?;
            input.parse::<Token![=]>()?;
            krate = Some(runtime_path::read(&input.parse()?)?);
            input.parse::<Token![,]>()?;
        }
        if input.is_empty() {
            return Err(Error::new(
                Span::call_site(),
                "which key? write a template, `key!(\"<tenant>:<email>\")`",
            ));
        }
        let expr: Expr = input.parse()?;
        let Some(template) = as_str(&expr).cloned() else {
            let name = match &expr {
                Expr::Path(path) => path.path.get_ident().map(ToString::to_string),
                _ => None,
            };
            let name = name.unwrap_or_else(|| "email".to_owned());
            let message = format!("write the template as a string literal: `key!(\"<{name}>\")`");
            return Err(Error::new_spanned(expr, message));
        };
        input.parse::<Option<Token![,]>>()?;
        if !input.is_empty() {
            return Err(input.error(
                "nothing follows the template: its placeholders are names in scope, as in \
                 `key!(\"<email>\")`",
            ));
        }
        Ok(Self { krate, template })
    }
}
