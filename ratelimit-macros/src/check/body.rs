//! The function's body: its shape, and what is known where the guard goes.

use quote::ToTokens as _;
use syn::{Block, Error};

use crate::check::output::Output;
use crate::check::scope::Scope;
use crate::check::{async_block, async_trait};
use crate::parse::function::Function;

pub(crate) struct Body {
    pub(crate) shape: Shape,
    /// What `return` returns where the guard goes.
    pub(crate) output: Output,
    /// The names bound there.
    pub(crate) scope: Scope,
}

/// Where the guard goes.
pub(crate) enum Shape {
    /// `async fn`: at the head of the body.
    AsyncFn,
    /// `fn … -> impl Future { async move { … } }`, boxed or not: at the head of the async block.
    Future(Block),
    /// What `#[async_trait]` made of an async method: before its `let __ret: R = { … };`.
    AsyncTrait(Block),
}

impl Body {
    pub(crate) fn of(function: &Function) -> syn::Result<Self> {
        let signature = &function.signature;
        let scope = Scope::of(signature);
        if signature.asyncness.is_some() {
            return Ok(Self { shape: Shape::AsyncFn, output: Output::of_async_fn(signature), scope });
        }
        let mut block: Block = syn::parse2(function.body.to_token_stream())?;
        if async_trait::made(signature)
            && let Some((inner, index)) = async_trait::find(&mut block)
        {
            let output = async_trait::output(inner, index, signature);
            let scope = async_trait::scope(inner, index, scope);
            return Ok(Self { shape: Shape::AsyncTrait(block), output, scope });
        }
        let Some(future) = async_block::find(&mut block) else {
            let mut tokens = signature.fn_token.to_token_stream();
            signature.ident.to_tokens(&mut tokens);
            let message =
                "`#[rate_limit]` goes on an async function: write `async fn`, or end the body with `async move { … }`";
            return Err(Error::new_spanned(tokens, message));
        };
        if future.capture.is_none() {
            let message = "the limit needs the arguments inside the future: write `async move`";
            return Err(Error::new_spanned(future.async_token, message));
        }
        Ok(Self { shape: Shape::Future(block), output: Output::of_future(&signature.output), scope })
    }
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
            "fn f() -> BoxFuture<'static, R> { x(); async move { b }.boxed() }",
            "fn f() -> Alias { return Box::pin(async move { b }) as Alias; }",
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
        let signature = "fn f<'life0, 'async_trait>(&'life0 self, a: A, __arg2: B) -> Pin<Box<dyn Future<Output = R>>>";
        let plain = format!("{signature} {{ Box::pin(async move {{ {INNER} }}) }}");
        let instrumented = format!(
            "{signature} {{ Box::pin(async move {{ let s = span(); let f = async move {{ match async move {{ {INNER} \
             }}.await {{ x => x }} }}; if on {{ i(f, s).await }} else {{ f.await }} }}) }}"
        );
        for text in [plain, instrumented] {
            let body = body(&text);
            assert!(matches!(body.shape, Shape::AsyncTrait(_)));
            assert!(matches!(body.output, Output::Type(_)));
            assert_eq!(body.scope.texts(), ["self", "a", "b", "c"]);
            assert_eq!(body.scope.receiver.unwrap(), "__self");
        }
        let unit = body("fn f<'async_trait>() -> X { Box::pin(async move { let _: () = { body }; }) }");
        assert!(matches!(unit.output, Output::Nothing(_)));
    }

    #[test]
    fn refused() {
        for (text, part) in [
            ("fn f() { body }", "goes on an async function"),
            ("fn f() -> impl Future { async { body } }", "write `async move`"),
        ] {
            let error = Body::of(&syn::parse_str(text).unwrap()).err().unwrap().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
