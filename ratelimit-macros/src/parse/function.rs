//! The annotated function. Its body stays unread tokens: an async function's needs no parsing.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt as _;
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Error, Ident, LitStr, Meta, Signature, Token, Visibility};

use crate::parse::attribute;

pub(crate) struct Function {
    pub(crate) attributes: Vec<Attribute>,
    visibility: Visibility,
    pub(crate) signature: Signature,
    /// The braces and the tokens between them.
    pub(crate) body: Group,
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        let visibility = input.parse()?;
        if let Some(error) = other_item(input) {
            return Err(error);
        }
        let signature: Signature = input.parse()?;
        if input.peek(Token![;]) {
            let what = if signature.receiver().is_some() {
                "method"
            } else {
                "function"
            };
            let message = format!(
                "this {what} has no body to guard: put `#[rate_limit]` on the implementations, or \
                 write a default body"
            );
            return Err(Error::new_spanned(&signature.ident, message));
        }
        let body = braces(input.parse()?)?;
        Ok(Self {
            attributes,
            visibility,
            signature,
            body,
        })
    }
}

impl ToTokens for Function {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        self.with_body(&self.body).to_tokens(tokens);
    }
}

impl Function {
    /// The function with `body` in place of its own.
    pub(crate) fn with_body(&self, body: &Group) -> TokenStream {
        let mut tokens = TokenStream::new();
        for attribute in &self.attributes {
            attribute.to_tokens(&mut tokens);
        }
        self.visibility.to_tokens(&mut tokens);
        self.signature.to_tokens(&mut tokens);
        body.to_tokens(&mut tokens);
        tokens
    }

    /// Takes the `#[rate_limit]` attributes off, in written order.
    pub(crate) fn take_stacked(&mut self) -> Vec<Attribute> {
        let (stacked, others) = std::mem::take(&mut self.attributes)
            .into_iter()
            .partition(is_ours);
        self.attributes = others;
        stacked
    }
}

/// `true` if `attribute` is `#[rate_limit]`. Another crate's attribute may have that name:
/// under an unknown path, the arguments decide.
fn is_ours(attribute: &Attribute) -> bool {
    let path = attribute.path();
    let named = path
        .segments
        .last()
        .is_some_and(|last| last.ident == "rate_limit");
    let ours = |name: &Ident| name == "ratelimit_runtime" || name == "ratelimit_macros";
    let known = path.segments.len() == 1
        || path
            .segments
            .first()
            .is_some_and(|first| ours(&first.ident));
    named
        && (known
            || matches!(&attribute.meta, Meta::List(list) if attribute::can_read(list.tokens.clone())))
}

fn braces(tree: TokenTree) -> syn::Result<Group> {
    match tree {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Ok(group),
        // A body that `macro_rules!` passed on as `$body:block`.
        TokenTree::Group(group) if group.delimiter() == Delimiter::None => {
            syn::parse2(group.stream()).and_then(braces)
        }
        other => Err(Error::new_spanned(other, "expected the function's body")),
    }
}

/// Words that may follow `const`, `unsafe`, `extern` or `async` in an item.
const QUALIFIED: [&str; 7] = ["const", "unsafe", "extern", "async", "fn", "impl", "trait"];

/// The error for an item that is no function.
fn other_item(input: ParseStream<'_>) -> Option<Error> {
    let ahead = input.fork();
    let mut keyword: Ident = ahead.call(Ident::parse_any).ok()?;
    // `unsafe impl` is an `impl`, `const LIMIT` a `const`, `async unsafe extern "C" fn` a function.
    while keyword == "const" || keyword == "unsafe" || keyword == "extern" || keyword == "async" {
        let _abi: Option<LitStr> = ahead.parse().ok()?;
        match ahead.call(Ident::parse_any) {
            Ok(next) if QUALIFIED.iter().any(|qualified| next == qualified) => keyword = next,
            _ => break,
        }
    }
    let advice = match keyword.to_string().as_str() {
        "impl" | "trait" => "put it on each method it is for",
        "struct" | "enum" | "union" | "mod" | "type" | "static" | "use" | "macro_rules" | "let"
        | "const" | "extern" => "put it on the function it is for",
        _ => return None,
    };
    Some(Error::new_spanned(
        &keyword,
        format!("`#[rate_limit]` goes on an async function, not on this `{keyword}`: {advice}"),
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_function_is_printed_as_it_was_written() {
        for text in [
            "async fn f() {}",
            "/// doc\n#[inline] pub(crate) async unsafe extern \"C\" fn f<'a, T: X, const N: \
             usize>(&'a self, mut x: T) -> R where T: Y { #![allow(unused)] x }",
            "async fn f(self: Arc<Self>) -> impl X { any ~ tokens at all }",
        ] {
            let function: Function = syn::parse_str(text).unwrap();
            let expected: TokenStream = text.parse().unwrap();
            let plain = |tokens: TokenStream| tokens.to_string().replace(' ', "");
            assert_eq!(plain(function.to_token_stream()), plain(expected));
        }
    }

    #[test]
    fn stacked_attributes_are_taken_off_the_function() {
        let text = "#[a] #[rate_limit(1)] #[ratelimit_runtime::rate_limit(2)] #[b] async fn f() {}";
        let mut function: Function = syn::parse_str(text).unwrap();
        assert_eq!(function.take_stacked().len(), 2);
        assert_eq!(
            function.to_token_stream().to_string(),
            "# [a] # [b] async fn f () { }"
        );
    }

    #[test]
    fn attributes_of_other_crates_stay_on_the_function() {
        for (attribute, ours) in [
            ("#[rate_limit]", true),
            ("#[rate_limit(per_second = 3)]", true),
            ("#[ratelimit_runtime::rate_limit(windw = 3)]", true),
            ("#[limits::rate_limit(window = \"60s\", max = 3)]", true),
            (
                "#[::web::limits::rate_limit(key = \"<id>\", policy = \"login\",)]",
                true,
            ),
            ("#[actix_governor::rate_limit(per_second = 3)]", false),
            ("#[other::rate_limit]", false),
            ("#[other::rate_limit(3, \"60s\")]", false),
            ("#[other::rate_limit(max = 3)]", false),
            ("#[rate_limit::other]", false),
        ] {
            let mut function: Function =
                syn::parse_str(&format!("{attribute} async fn f() {{}}")).unwrap();
            assert_eq!(function.take_stacked().len() == 1, ours, "{attribute}");
        }
    }
}
