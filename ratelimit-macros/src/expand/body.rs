//! Puts the guard into the function's body, where its future begins to run: an `async fn` as
//! written, one that returns a future, or what `#[async_trait]` has made of it.

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::parse::{ParseStream, Parser as _};
use syn::{Attribute, Expr, MacroDelimiter};

use crate::async_blocks::{changed, with_stream};
use crate::check::function::async_trait::Ret;
use crate::check::function::body::Shape;

/// Makes statements and a last expression of a block, whose braces are at this place.
pub(crate) type Wrap<'a> = dyn Fn(TokenStream, Span) -> TokenStream + 'a;

/// The function's body, `braces`, with `guard` at its place, and `wrap` around the guarded
/// statements.
pub(crate) fn guarded(
    shape: &Shape,
    braces: &Group,
    guard: &TokenStream,
    wrap: Option<&Wrap<'_>>,
) -> Group {
    let prepended = |block: &Group| prepended(block, guard, wrap);
    match shape {
        Shape::AsyncFn => prepended(braces),
        Shape::Future => changed(braces, &[0], &prepended),
        Shape::AsyncTrait(ret) => {
            let before_ret = |block: &Group| before_ret(ret, block, guard, wrap);
            changed(braces, &ret.place, &before_ret)
        }
    }
}

/// `block` with the guard before the statement `let __ret: R = { … };` in it.
fn before_ret(ret: &Ret, block: &Group, guard: &TokenStream, wrap: Option<&Wrap<'_>>) -> Group {
    let Ret {
        before,
        declared,
        body,
        after,
        ..
    } = ret;
    let statement = |body: Group| {
        let mut stream = declared.clone();
        stream.extend([TokenTree::Group(body)]);
        stream.extend(after.clone());
        stream
    };
    let mut stream = before.clone();
    stream.extend(guard.clone());
    stream.extend(match wrap {
        // The statement is repeated inside, so that lints see the same body as without the guard.
        Some(wrap) => {
            let place = body.span();
            let mut wrapped = Group::new(Delimiter::Brace, wrap(statement(body.clone()), place));
            wrapped.set_span(Span::mixed_site());
            statement(wrapped)
        }
        None => statement(body.clone()),
    });
    with_stream(block, stream)
}

/// `{ inner attributes, guard, { the rest } }`.
///
/// The user's braces stay outermost, so that lints see the user's function. The body has its own
/// scope: an item in it must not capture a name of the guard.
pub(crate) fn prepended(body: &Group, guard: &TokenStream, wrap: Option<&Wrap<'_>>) -> Group {
    let split = |input: ParseStream<'_>| {
        let inner = input.call(Attribute::parse_inner)?;
        Ok((inner, input.parse::<TokenStream>()?))
    };
    let (inner_attributes, rest) = split
        .parse2(body.stream())
        .unwrap_or_else(|_| (Vec::new(), body.stream()));
    // Braces that are the user's own keep both their places: an error of grammar at the closing one
    // is then the same as the compiler's first, which it does not repeat.
    let rest = scope(if inner_attributes.is_empty() {
        body.clone()
    } else {
        with_stream(body, rest)
    });
    let mut stream = TokenStream::new();
    for attribute in inner_attributes {
        attribute.to_tokens(&mut stream);
    }
    stream.extend(guard.clone());
    stream.extend(match wrap {
        Some(wrap) => wrap(rest, body.span()),
        None => rest,
    });
    with_stream(body, stream)
}

/// The statements in `braces`; with the braces, if they need a scope of their own.
///
/// One expression holds no items and needs no scope. Anything else keeps the user's braces, and
/// with them the user's edition: it decides when the last expression's temporaries are dropped. A
/// macro in braces is not an expression: it may make items.
fn scope(braces: Group) -> TokenStream {
    let inside = braces.stream();
    match syn::parse2(inside.clone()) {
        Ok(Expr::Macro(last)) if matches!(last.mac.delimiter, MacroDelimiter::Brace(_)) => {
            statements(braces)
        }
        Err(_) => statements(braces),
        Ok(_) => inside,
    }
}

/// The block of statements that is in `braces`.
///
/// Where all of them but an expression may vanish, an item stays: rustc calls braces unused that
/// hold an expression alone, and are on one line.
fn statements(braces: Group) -> TokenStream {
    if !may_vanish(braces.stream()) {
        return TokenTree::Group(braces).into();
    }
    let mut inside = quote_mixed!(
        const _: () = ();
    );
    inside.extend(braces.stream());
    TokenTree::Group(with_stream(&braces, inside)).into()
}

/// `true` if there is a macro in braces, which may make nothing, or an attribute, which may be a
/// `cfg`.
fn may_vanish(statements: TokenStream) -> bool {
    let mut after_bang = false;
    statements.into_iter().any(|tree| {
        let found = match &tree {
            TokenTree::Punct(punct) => punct.as_char() == '#',
            TokenTree::Group(group) => after_bang && group.delimiter() == Delimiter::Brace,
            _ => false,
        };
        after_bang = matches!(&tree, TokenTree::Punct(punct) if punct.as_char() == '!');
        found
    })
}
