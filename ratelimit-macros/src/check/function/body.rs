//! Finds the place of the guard in the function's body, the type that `return` has there, and the
//! names bound there. All three differ between an `async fn`, a function that returns a future, and
//! the method that `#[async_trait]` writes.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::Error;

use crate::async_blocks::emptied;
use crate::check::function::async_block;
use crate::check::function::async_trait::{self, Ret};
use crate::check::function::names::mentions;
use crate::check::function::output::Output;
use crate::check::function::scope::Scope;
use crate::parse::function::Function;

pub(crate) struct Body {
    pub(crate) shape: Shape,
    /// The type that `return` has at the place of the guard.
    pub(crate) output: Output,
    /// The names bound at the place of the guard.
    pub(crate) scope: Scope,
}

/// The place of the guard.
pub(crate) enum Shape {
    /// `async fn`: at the head of the body.
    AsyncFn,
    /// `fn … -> impl Future { async move { … } }`, boxed or not: at the head of the async block.
    Future,
    /// An async method under `#[async_trait]`: before its `let __ret: R = { … };`.
    AsyncTrait(Box<Ret>),
}

impl Body {
    pub(crate) fn of(function: &Function) -> syn::Result<Self> {
        let signature = &function.signature;
        let body = function.body.stream();
        if has_guard(body.clone()) {
            return Err(Error::new_spanned(&signature.ident, GUARDED));
        }
        let scope = Scope::of(signature);
        if signature.asyncness.is_some() {
            return Ok(Self {
                shape: Shape::AsyncFn,
                output: Output::of_async_fn(signature),
                scope,
            });
        }
        let name = &signature.ident;
        match async_block::find(&body) {
            Ok(Some(_)) => {}
            _ if mentions(&emptied(body.clone()), "block_on") => {
                return Err(Error::new_spanned(name, BLOCKING));
            }
            _ if async_trait::made(signature) => return Err(Error::new_spanned(name, CHANGED)),
            Ok(None) => {
                let mut tokens = signature.fn_token.to_token_stream();
                name.to_tokens(&mut tokens);
                return Err(Error::new_spanned(tokens, NOT_ASYNC));
            }
            Err(error) => return Err(error),
        }
        if async_trait::made(signature)
            && let Some(ret) = async_trait::find(&body)
        {
            return Ok(Self {
                output: ret.output(signature),
                scope: ret.scope(scope),
                shape: Shape::AsyncTrait(Box::new(ret)),
            });
        }
        Ok(Self {
            shape: Shape::Future,
            output: Output::of_future(&signature.output),
            scope,
        })
    }
}

const NOT_ASYNC: &str = "`#[rate_limit]` goes on an async function: write `async fn`, or make \
    `Box::pin(async move { … })` the only expression of the body";

/// The error for a function that `#[tokio::main]`, `#[tokio::test]` and the like made blocking.
const BLOCKING: &str = "this is no longer an async function where `#[rate_limit]` sees it, because \
    an attribute above it has made it one that blocks: swap them, so that `#[rate_limit]` stands \
    above, as in `#[rate_limit(…)] #[tokio::main]`";

/// The error for a method whose box holds more than its body: calls could avoid the limit.
const CHANGED: &str = "an attribute above `#[rate_limit]` has put code around the future of this \
    method: swap them, so that `#[rate_limit]` stands above";

/// The error for two guards on a function. The topmost attribute takes along those below it, but
/// does not know one under another name. Separate guards would charge one for a call that the other
/// refuses.
const GUARDED: &str = "this function has two `#[rate_limit]` that cannot be asked together, \
    because one of the two was imported with `as`: write both as `#[rate_limit(…)]`";

/// `true` if a guard is among `tokens`, at any depth: `let __ratelimit_run =`.
pub(crate) fn has_guard(tokens: TokenStream) -> bool {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn body(text: &str) -> Body {
        Body::of(&syn::parse_str(text).unwrap()).unwrap()
    }

    #[test]
    fn every_accepted_shape_of_a_body_is_recognised() {
        let of_async_fn = body("async fn f(a: A) -> R { b; c }");
        assert!(matches!(of_async_fn.shape, Shape::AsyncFn));
        assert_eq!(of_async_fn.scope.texts(), ["a"]);
        for text in [
            "fn f() -> impl Future<Output = R> + Send { async move { b } }",
            "fn f() -> Alias { Box::pin(async move { b }) }",
            "fn f() -> R { #![allow(x)] ::std::boxed::Box::pin(async move { #![allow(y)] half. },) \
             }",
        ] {
            assert!(matches!(body(text).shape, Shape::Future), "{text}");
        }
    }

    #[test]
    fn bodies_that_async_trait_has_boxed_are_recognised() {
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
        let wrapped =
            "fn f<'async_trait>() -> X { Box::pin(retry(async move { let _: () = { body }; })) }";
        let error = Body::of(&syn::parse_str(wrapped).unwrap()).err().unwrap();
        assert_eq!(error.to_string(), CHANGED);
        let unit =
            body("fn f<'async_trait>() -> X { Box::pin(async move { let _: () = { body }; }) }");
        assert!(matches!(unit.output, Output::Nothing(_)));
    }
}
