//! Puts the guard into the function's body.

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::parse::{ParseStream, Parser as _};
use syn::{Attribute, Block, Expr, Stmt};

use crate::check::body::Shape;
use crate::check::{async_block, async_trait};

/// Makes statements and a last expression of a block.
pub(crate) type Wrap<'a> = dyn Fn(TokenStream) -> TokenStream + 'a;

/// The function's body, `braces`, with `guard` where it goes, and `wrap` around what it guards.
pub(crate) fn guarded(shape: Shape, braces: &Group, guard: TokenStream, wrap: Option<&Wrap<'_>>) -> Group {
    match shape {
        Shape::AsyncFn => prepended(braces, guard, wrap),
        Shape::Future(mut block) => {
            if let Some(future) = async_block::find(&mut block) {
                let body = group(&future.block, future.block.brace_token.span.join());
                let stream = prepended(&body, guard, wrap).stream();
                future.block.stmts = vec![Stmt::Expr(Expr::Verbatim(stream), None)];
            }
            group(&block, braces.span())
        }
        Shape::AsyncTrait(mut block) => {
            if let Some((inner, index)) = async_trait::find(&mut block) {
                if let (Some(wrap), Some(Stmt::Local(ret))) = (wrap, inner.stmts.get_mut(index))
                    && let Some(init) = &mut ret.init
                {
                    let mut wrapped = Group::new(Delimiter::Brace, wrap(init.expr.to_token_stream()));
                    wrapped.set_span(Span::mixed_site());
                    *init.expr = Expr::Verbatim(TokenTree::Group(wrapped).into());
                }
                inner.stmts.insert(index, Stmt::Expr(Expr::Verbatim(guard), None));
            }
            group(&block, braces.span())
        }
    }
}

/// `{ inner attributes, guard, { the rest } }`.
///
/// The user's braces stay outermost, so that lints see the user's function; the inner ones look macro-made, so that no
/// lint calls them unnecessary. The body has its own scope: an item in it must not capture a name of the guard.
fn prepended(body: &Group, guard: TokenStream, wrap: Option<&Wrap<'_>>) -> Group {
    let split = |input: ParseStream<'_>| {
        let inner = input.call(Attribute::parse_inner)?;
        Ok((inner, input.parse::<TokenStream>()?))
    };
    let (inner_attributes, rest) = split.parse2(body.stream()).unwrap_or_else(|_| (Vec::new(), body.stream()));
    // One expression holds no items, and needs no scope. Anything else keeps the user's braces, and with them the
    // user's edition: it decides when the last expression's temporaries are dropped.
    let lone = syn::parse2::<Expr>(rest.clone()).is_ok_and(|expr| !matches!(expr, Expr::Block(_)));
    let mut scoped = Group::new(Delimiter::Brace, rest.clone());
    scoped.set_span(body.span());
    let rest = if lone { rest } else { TokenTree::Group(scoped).into() };
    let mut stream = TokenStream::new();
    for attribute in inner_attributes {
        attribute.to_tokens(&mut stream);
    }
    stream.extend(guard);
    stream.extend(match wrap {
        Some(wrap) => wrap(rest),
        None => rest,
    });
    let mut outer = Group::new(Delimiter::Brace, stream);
    outer.set_span(body.span());
    outer
}

/// `block`, with its braces located at `span`.
fn group(block: &Block, span: Span) -> Group {
    let mut stream = TokenStream::new();
    for statement in &block.stmts {
        statement.to_tokens(&mut stream);
    }
    let mut group = Group::new(Delimiter::Brace, stream);
    group.set_span(span);
    group
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use quote::quote;

    use super::*;
    use crate::check::body::Body;
    use crate::parse::function::Function;

    fn guard(text: &str, wrap: Option<&Wrap<'_>>) -> String {
        let function: Function = syn::parse_str(text).unwrap();
        let shape = Body::of(&function).unwrap().shape;
        guarded(shape, &function.body, quote!(GUARD;), wrap).to_token_stream().to_string()
    }

    #[test]
    fn the_guard_stands_first() {
        for (text, expected) in [
            ("async fn f(a: A) -> R { #![allow(x)] b; c }", "{ # ! [allow (x)] GUARD ; { b ; c } }"),
            ("async fn f() -> R { b }", "{ GUARD ; b }"),
            ("async fn f() -> R { { b } }", "{ GUARD ; { { b } } }"),
            ("fn f() -> impl Future<Output = R> + Send { async move { b } }", "{ async move { GUARD ; b } }"),
            (
                "fn f() -> Pin<Box<dyn Future<Output = R>>> { x(); Box::pin(async move { b }) }",
                "{ x () ; Box :: pin (async move { GUARD ; b }) }",
            ),
            ("fn f() -> BoxFuture<'static, R> { async move { b }.boxed() }", "{ async move { GUARD ; b } . boxed () }"),
            ("fn f() -> Alias { async move { b } }", "{ async move { GUARD ; b } }"),
            (
                "fn f<'async_trait>() -> X { Box::pin(async move { let a = a; let __ret: R = { b }; __ret }) }",
                "{ Box :: pin (async move { let a = a ; GUARD ; let __ret : R = { b } ; __ret }) }",
            ),
            (
                "fn f<'async_trait>() -> X { Box::pin(async move { let _: () = { b }; }) }",
                "{ Box :: pin (async move { GUARD ; let _ : () = { b } ; }) }",
            ),
            (
                "fn f<'async_trait>() -> X { let f = async move { async move { let __ret: R = { b }; __ret }.await }; f }",
                "{ let f = async move { async move { GUARD ; let __ret : R = { b } ; __ret } . await } ; f }",
            ),
        ] {
            assert_eq!(guard(text, None), expected, "{text}");
        }
    }

    #[test]
    fn what_it_guards_is_wrapped() {
        for (text, expected) in [
            ("async fn f() -> R { #![allow(x)] b }", "{ # ! [allow (x)] GUARD ; WRAP b ; OUTCOME }"),
            (
                "fn f() -> impl Future<Output = R> { async move { b }.boxed() }",
                "{ async move { GUARD ; WRAP b ; OUTCOME } . boxed () }",
            ),
            (
                "fn f<'async_trait>() -> X { Box::pin(async move { let a = a; let __ret: R = { b }; __ret }) }",
                "{ Box :: pin (async move { let a = a ; GUARD ; let __ret : R = { WRAP { b } ; OUTCOME } ; __ret }) }",
            ),
        ] {
            assert_eq!(guard(text, Some(&|body| quote!(WRAP #body; OUTCOME))), expected, "{text}");
        }
    }
}
