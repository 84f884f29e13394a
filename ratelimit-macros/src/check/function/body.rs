//! The function's body: its shape, its output, and the names bound where the guard goes.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::Error;

use crate::async_blocks;
use crate::check::function::async_trait::Place;
use crate::check::function::output::Output;
use crate::check::function::scope::Scope;
use crate::check::function::{async_block, async_trait};
use crate::parse::function::Function;

pub(crate) struct Body {
    pub(crate) shape: Shape,
    /// The type that `return` returns where the guard goes.
    pub(crate) output: Output,
    /// The names bound there.
    pub(crate) scope: Scope,
}

/// Where the guard goes.
pub(crate) enum Shape {
    /// `async fn`: at the head of the body.
    AsyncFn,
    /// `fn … -> impl Future { async move { … } }`, boxed or not: at the head of the async block of
    /// this number.
    Future(usize),
    /// An async method under `#[async_trait]`: before its `let __ret: R = { … };`.
    AsyncTrait(Place),
}

impl Body {
    pub(crate) fn of(function: &Function) -> syn::Result<Self> {
        let signature = &function.signature;
        let body = function.body.stream();
        if has_guard(body.clone()) {
            return Err(Error::new_spanned(&signature.ident, GUARDED));
        }
        let mut scope = Scope::of(signature);
        if signature.asyncness.is_some() {
            return Ok(Self {
                shape: Shape::AsyncFn,
                output: Output::of_async_fn(signature),
                scope,
            });
        }
        if async_trait::made(signature)
            && let Some((place, ret)) = async_trait::find(&body)
        {
            let output = ret.output(signature);
            return Ok(Self {
                shape: Shape::AsyncTrait(place),
                output,
                scope: ret.scope(scope),
            });
        }
        let (outside, _) = async_blocks::numbered(body.clone());
        let blocking = mentions(&outside, "block_on");
        let Some(future) = async_block::find(body).filter(|_| !blocking) else {
            if blocking {
                return Err(Error::new_spanned(&signature.ident, BLOCKING));
            }
            let mut tokens = signature.fn_token.to_token_stream();
            signature.ident.to_tokens(&mut tokens);
            return Err(Error::new_spanned(tokens, NOT_ASYNC));
        };
        let future = future?;
        scope.hide(&future.locals);
        Ok(Self {
            shape: Shape::Future(future.number),
            output: Output::of_future(&signature.output),
            scope,
        })
    }
}

const NOT_ASYNC: &str = "`#[rate_limit]` goes on an async function: write `async fn`, or end the \
    body with `async move { … }`";

/// The error for a function that `#[tokio::main]`, `#[tokio::test]` and the like made blocking.
const BLOCKING: &str = "this is no longer an async function where `#[rate_limit]` sees it, because \
    an attribute above it has made it one that blocks: swap them, so that `#[rate_limit]` stands \
    above, as in `#[rate_limit(…)] #[tokio::main]`";

/// An attribute takes the attributes below it along, if it knows them: not under another name. Two
/// guards that do not know of each other would charge one for a call that the other refuses.
const GUARDED: &str = "this function has two `#[rate_limit]` that cannot be asked together, \
    because one of the two was imported with `as`: write both as `#[rate_limit(…)]`";

/// Whether a guard is among `tokens`, at any depth: `let __ratelimit_run =`.
fn has_guard(tokens: TokenStream) -> bool {
    let mut words = [String::new(), String::new()];
    tokens.into_iter().any(|tree| {
        if let TokenTree::Group(group) = &tree
            && has_guard(group.stream())
        {
            return true;
        }
        let [before, last] = &mut words;
        let word = tree.to_string();
        let found = before == "let" && last == "__ratelimit_run" && word == "=";
        *before = std::mem::replace(last, word);
        found
    })
}

/// Whether `word` is among `tokens`, at any depth.
pub(crate) fn mentions(tokens: &TokenStream, word: &str) -> bool {
    tokens.clone().into_iter().any(|tree| match tree {
        TokenTree::Ident(ident) => ident == word,
        TokenTree::Group(group) => mentions(&group.stream(), word),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn body(text: &str) -> Body {
        Body::of(&syn::parse_str(text).unwrap()).unwrap()
    }

    #[test]
    fn shapes() {
        let of_async_fn = body("async fn f(a: A) -> R { b; c }");
        assert!(matches!(of_async_fn.shape, Shape::AsyncFn));
        assert_eq!(of_async_fn.scope.texts(), ["a"]);
        for text in [
            "fn f() -> impl Future<Output = R> + Send { async move { b } }",
            "fn f() -> BoxFuture<'static, R> { const X: u8 = 1; async move { b }.boxed() }",
            "fn f() -> Alias { return Box::pin(async move { b }) as Alias; }",
            "fn f() -> R { #![allow(x)] use a::b; fn c() { return } { async move { #![allow(y)] \
             half. } } }",
            "fn f() -> R { let a = a.to_owned(); let n = Arc::clone(&self.n); async move { b \
             }.instrument(info_span!(\"x\", a = ?b)) }",
            "fn f() -> R { let Self { a, .. } = self; let (b, c) = (b.clone(), &d[1..]); let u = \
             format!(\"{a}{}\", b); async move { b } }",
            "fn f() -> R { let request = Request { email, id: self.id }; \
             Either::Left(Box::pin(async move { b })) }",
        ] {
            assert!(matches!(body(text).shape, Shape::Future(_)), "{text}");
        }
    }

    #[test]
    fn async_trait_methods() {
        const INNER: &str = "
            if let ::core::option::Option::Some(__ret) = ::core::option::Option::None::<R> { return __ret; }
            let __self = self; let mut a = a; let (b, c) = { let __arg2 = __arg2; __arg2 };
            let __ret: R = { body }; __ret";
        let signature = "fn f<'life0, 'async_trait>(&'life0 self, a: A, __arg2: B) -> Pin<Box<dyn \
            Future<Output = R>>>";
        let plain = format!("{signature} {{ Box::pin(async move {{ {INNER} }}) }}");
        let instrumented = format!(
            "{signature} {{ Box::pin(async move {{ let s = span(); let f = async move {{ match \
             async move {{ {INNER} }}.await {{ x => x }} }}; if on {{ i(f, s).await }} else {{ \
             f.await }} }}) }}"
        );
        for text in [plain, instrumented] {
            let body = body(&text);
            assert!(matches!(body.shape, Shape::AsyncTrait(_)));
            assert!(matches!(body.output, Output::Type(_)));
            assert_eq!(body.scope.texts(), ["self", "a", "b", "c"]);
            assert_eq!(body.scope.receiver.unwrap(), "__self");
        }
        let unit =
            body("fn f<'async_trait>() -> X { Box::pin(async move { let _: () = { body }; }) }");
        assert!(matches!(unit.output, Output::Nothing(_)));
    }
}
