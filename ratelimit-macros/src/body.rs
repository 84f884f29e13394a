//! Where in a function the guard goes, which names are bound there, and what `return` returns.

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::parse::{ParseStream, Parser as _};
use syn::punctuated::Punctuated;
use syn::{
    AngleBracketedGenericArguments, Attribute, Block, Error, Expr, ExprAsync, GenericArgument, Pat, PathArguments,
    ReturnType, Signature, Stmt, Type, TypeParamBound,
};

use crate::function::Function;
use crate::scope::Scope;

/// A place for the guard.
pub(crate) struct Body {
    kind: Kind,
    /// What `return` returns there.
    pub(crate) returns: Returns,
    /// The names bound there.
    pub(crate) scope: Scope,
}

enum Kind {
    /// `async fn`: at the head of the body.
    AsyncFn,
    /// `fn … -> impl Future { async move { … } }`, boxed or not: at the head of the async block.
    Future(Block),
    /// What `#[async_trait]` made of an async method: before its `let __ret: R = { … };`.
    AsyncTrait(Block),
}

pub(crate) enum Returns {
    /// `()` or `!`, with the tokens that say so.
    Nothing(TokenStream),
    Type(Box<Type>),
    /// An alias of some future: left to inference.
    Unknown,
}

impl Body {
    pub(crate) fn locate(function: &Function) -> syn::Result<Self> {
        let signature = &function.signature;
        let scope = Scope::of(signature);
        if signature.asyncness.is_some() {
            return Ok(Self { kind: Kind::AsyncFn, returns: declared(signature), scope });
        }
        let mut block: Block = syn::parse2(function.body.to_token_stream())?;
        if signature.generics.lifetimes().any(|lifetime| lifetime.lifetime.ident == "async_trait")
            && let Some((inner, index)) = before_ret(&mut block)
        {
            let (returns, scope) = async_trait(inner, index, signature, scope);
            return Ok(Self { kind: Kind::AsyncTrait(block), returns, scope });
        }
        let Some(future) = future(&mut block) else {
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
        Ok(Self { kind: Kind::Future(block), returns: output(&signature.output), scope })
    }

    /// The function's body, `braces`, with `guard` in its place.
    pub(crate) fn guarded(self, braces: &Group, guard: TokenStream) -> Group {
        self.with(braces, guard, None)
    }

    /// The function's body, `braces`, with `guard` in its place and `wrap` around what it guards: `wrap` is given a
    /// block, and makes statements and a last expression of it.
    pub(crate) fn wrapped(
        self,
        braces: &Group,
        guard: TokenStream,
        wrap: impl Fn(TokenStream) -> TokenStream,
    ) -> Group {
        self.with(braces, guard, Some(&wrap))
    }

    fn with(mut self, braces: &Group, guard: TokenStream, wrap: Option<&Wrap<'_>>) -> Group {
        match &mut self.kind {
            Kind::AsyncFn => return prepended(braces, guard, wrap),
            Kind::Future(block) => {
                if let Some(future) = future(block) {
                    let body = block_group(&future.block);
                    let stream = prepended(&body, guard, wrap).stream();
                    future.block.stmts = vec![Stmt::Expr(Expr::Verbatim(stream), None)];
                }
            }
            Kind::AsyncTrait(block) => {
                if let Some((inner, index)) = before_ret(block) {
                    if let (Some(wrap), Some(Stmt::Local(ret))) = (wrap, inner.stmts.get_mut(index))
                        && let Some(init) = &mut ret.init
                    {
                        let mut wrapped = Group::new(Delimiter::Brace, wrap(init.expr.to_token_stream()));
                        wrapped.set_span(Span::mixed_site());
                        *init.expr = Expr::Verbatim(TokenTree::Group(wrapped).into());
                    }
                    inner.stmts.insert(index, Stmt::Expr(Expr::Verbatim(guard), None));
                }
            }
        }
        match self.kind {
            Kind::Future(block) | Kind::AsyncTrait(block) => block_group_in(&block, braces),
            Kind::AsyncFn => braces.clone(),
        }
    }
}

type Wrap<'a> = dyn Fn(TokenStream) -> TokenStream + 'a;

/// `{ inner attributes, guard, { the rest } }`.
///
/// The user's braces stay outermost, so that lints see the user's function; the inner ones look
/// macro-made, so that no lint calls them unnecessary. The body has its own scope: an item in it must not
/// capture a name of the guard.
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

fn block_group(block: &Block) -> Group {
    let mut stream = TokenStream::new();
    for statement in &block.stmts {
        statement.to_tokens(&mut stream);
    }
    let mut group = Group::new(Delimiter::Brace, stream);
    group.set_span(block.brace_token.span.join());
    group
}

fn block_group_in(block: &Block, braces: &Group) -> Group {
    let mut group = block_group(block);
    group.set_span(braces.span());
    group
}

/// The async block that the function's last expression is or hands on.
fn future(block: &mut Block) -> Option<&mut ExprAsync> {
    match block.stmts.last_mut()? {
        Stmt::Expr(expr, _) => future_in(expr),
        _ => None,
    }
}

fn future_in(expr: &mut Expr) -> Option<&mut ExprAsync> {
    match expr {
        Expr::Async(block) => Some(block),
        // Box::pin(…), Box::new(…).into(), (…).boxed()
        Expr::Call(call) if call.args.len() == 1 => future_in(call.args.first_mut()?),
        Expr::MethodCall(call) => future_in(&mut call.receiver),
        Expr::Cast(cast) => future_in(&mut cast.expr),
        Expr::Paren(paren) => future_in(&mut paren.expr),
        Expr::Group(group) => future_in(&mut group.expr),
        Expr::Return(ret) => future_in(ret.expr.as_deref_mut()?),
        Expr::Block(block) => future(&mut block.block),
        Expr::Unsafe(block) => future(&mut block.block),
        _ => None,
    }
}

/// The block that holds `let __ret: R = { … };`, and the index of that statement. Other attributes may
/// already have wrapped what `#[async_trait]` made.
fn before_ret(block: &mut Block) -> Option<(&mut Block, usize)> {
    if let Some(index) = block.stmts.iter().position(|statement| ret_type(statement).is_some()) {
        return Some((block, index));
    }
    block.stmts.iter_mut().find_map(|statement| match statement {
        Stmt::Local(local) => before_ret_in(&mut local.init.as_mut()?.expr),
        Stmt::Expr(expr, _) => before_ret_in(expr),
        _ => None,
    })
}

fn before_ret_in(expr: &mut Expr) -> Option<(&mut Block, usize)> {
    match expr {
        Expr::Async(block) => before_ret(&mut block.block),
        Expr::Block(block) => before_ret(&mut block.block),
        Expr::Call(call) => call.args.iter_mut().find_map(before_ret_in),
        Expr::MethodCall(call) => {
            let parts = std::iter::once(&mut *call.receiver).chain(&mut call.args);
            parts.into_iter().find_map(before_ret_in)
        }
        Expr::Await(wait) => before_ret_in(&mut wait.base),
        Expr::Match(choice) => before_ret_in(&mut choice.expr),
        Expr::Paren(paren) => before_ret_in(&mut paren.expr),
        Expr::Group(group) => before_ret_in(&mut group.expr),
        Expr::Return(ret) => before_ret_in(ret.expr.as_deref_mut()?),
        _ => None,
    }
}

/// The type in `let __ret: R = …` or, for methods that return nothing, `let _: () = { … }`.
fn ret_type(statement: &Stmt) -> Option<&Type> {
    let Stmt::Local(local) = statement else { return None };
    let Pat::Type(pattern) = &local.pat else { return None };
    let body = local.init.as_ref().is_some_and(|init| matches!(*init.expr, Expr::Block(_)));
    let named = match &*pattern.pat {
        Pat::Ident(name) => name.ident == "__ret",
        Pat::Wild(_) => is_unit(&pattern.ty),
        _ => false,
    };
    (body && named).then_some(&*pattern.ty)
}

/// What `#[async_trait]` bound before statement `index` of `block`, and what that block returns.
fn async_trait(block: &Block, index: usize, signature: &Signature, mut scope: Scope) -> (Returns, Scope) {
    // Arguments taken apart by a pattern are `__arg1` in the signature.
    scope.names.retain(|name| {
        !name.text().strip_prefix("__arg").is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    });
    for statement in block.stmts.iter().take(index) {
        let Stmt::Local(local) = statement else { continue };
        match &local.pat {
            Pat::Ident(name) if name.ident == "__self" => scope.receiver = Some(name.ident.clone()),
            // `let email = email;` keeps what the signature says of `email`.
            Pat::Ident(name) if scope.names.iter().any(|known| known.ident == name.ident) => {}
            pattern => scope.bind(pattern, local.attrs.iter().any(|attribute| attribute.path().is_ident("cfg"))),
        }
    }
    let returns = match block.stmts.get(index).and_then(ret_type) {
        Some(ty) if is_nothing(ty) => Returns::Nothing(signature.ident.to_token_stream()),
        Some(ty) => Returns::Type(Box::new(ty.clone())),
        None => Returns::Unknown,
    };
    (returns, scope)
}

fn declared(signature: &Signature) -> Returns {
    match &signature.output {
        ReturnType::Default => Returns::Nothing(signature.ident.to_token_stream()),
        ReturnType::Type(_, ty) if is_nothing(ty) => Returns::Nothing(ty.to_token_stream()),
        ReturnType::Type(_, ty) => Returns::Type(ty.clone()),
    }
}

/// What the future of a plain function gives.
fn output(returned: &ReturnType) -> Returns {
    let ty = match returned {
        ReturnType::Default => None,
        ReturnType::Type(_, ty) => output_of(ty),
    };
    match ty {
        Some(ty) if is_nothing(ty) => Returns::Nothing(ty.to_token_stream()),
        Some(ty) => Returns::Type(Box::new(ty.clone())),
        None => Returns::Unknown,
    }
}

/// `X` of the `Future<Output = X>` (or `BoxFuture<'a, X>`) in `ty`.
fn output_of(ty: &Type) -> Option<&Type> {
    match ty {
        Type::ImplTrait(future) => output_in(&future.bounds),
        Type::TraitObject(future) => output_in(&future.bounds),
        Type::Paren(paren) => output_of(&paren.elem),
        Type::Group(group) => output_of(&group.elem),
        Type::Path(path) => {
            let last = path.path.segments.last()?;
            let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
            if last.ident == "BoxFuture" || last.ident == "LocalBoxFuture" {
                return types(arguments).last();
            }
            types(arguments).find_map(output_of)
        }
        _ => None,
    }
}

fn output_in<P>(bounds: &Punctuated<TypeParamBound, P>) -> Option<&Type> {
    bounds.iter().find_map(|bound| {
        let TypeParamBound::Trait(bound) = bound else { return None };
        let PathArguments::AngleBracketed(arguments) = &bound.path.segments.last()?.arguments else { return None };
        arguments.args.iter().find_map(|argument| match argument {
            GenericArgument::AssocType(output) if output.ident == "Output" => Some(&output.ty),
            _ => None,
        })
    })
}

fn types(arguments: &AngleBracketedGenericArguments) -> impl Iterator<Item = &Type> {
    arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

fn is_unit(ty: &Type) -> bool {
    matches!(ty, Type::Tuple(tuple) if tuple.elems.is_empty())
}

fn is_nothing(ty: &Type) -> bool {
    is_unit(ty) || matches!(ty, Type::Never(_))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use quote::quote;

    fn guarded(text: &str) -> (String, String, Vec<String>) {
        let function: Function = syn::parse_str(text).unwrap();
        let body = Body::locate(&function).unwrap();
        let returns = match &body.returns {
            Returns::Nothing(_) => "nothing".to_owned(),
            Returns::Unknown => "unknown".to_owned(),
            Returns::Type(ty) => ty.to_token_stream().to_string(),
        };
        let names = body.scope.texts();
        let tokens = body.guarded(&function.body, quote!(GUARD;)).to_token_stream();
        (tokens.to_string(), returns, names)
    }

    #[test]
    fn async_functions() {
        let (body, returns, names) = guarded("async fn f(a: A) -> R { #![allow(x)] b; c }");
        assert_eq!(body, "{ # ! [allow (x)] GUARD ; { b ; c } }");
        assert_eq!(returns, "R");
        assert_eq!(names, ["a"]);
        assert_eq!(guarded("async fn f() {}").1, "nothing");
        assert_eq!(guarded("async fn f() -> ! { loop {} }").1, "nothing");
    }

    #[test]
    fn wrapped() {
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
            let function: Function = syn::parse_str(text).unwrap();
            let body = Body::locate(&function).unwrap();
            let actual = body.wrapped(&function.body, quote!(GUARD;), |body| quote!(WRAP #body; OUTCOME));
            assert_eq!(actual.to_token_stream().to_string(), expected);
        }
    }

    #[test]
    fn returned_futures() {
        for (text, body, returns) in [
            ("fn f() -> impl Future<Output = R> + Send { async move { b } }", "{ async move { GUARD ; b } }", "R"),
            (
                "fn f() -> Pin<Box<dyn Future<Output = Result<A, B>> + Send + '_>> { x(); Box::pin(async move { b }) }",
                "{ x () ; Box :: pin (async move { GUARD ; b }) }",
                "Result < A , B >",
            ),
            (
                "fn f() -> BoxFuture<'static, R> { async move { b }.boxed() }",
                "{ async move { GUARD ; b } . boxed () }",
                "R",
            ),
            ("fn f() -> Alias { async move { b } }", "{ async move { GUARD ; b } }", "unknown"),
        ] {
            let (actual, actual_returns, _) = guarded(text);
            assert_eq!((actual.as_str(), actual_returns.as_str()), (body, returns));
        }
    }

    const ASYNC_TRAIT: &str = "
        if let ::core::option::Option::Some(__ret) = ::core::option::Option::None::<R> { return __ret; }
        let __self = self; let mut a = a; let (b, c) = { let __arg2 = __arg2; __arg2 };
        let __ret: R = { body }; __ret";

    #[test]
    fn async_trait_methods() {
        let signature = "fn f<'life0, 'async_trait>(&'life0 self, a: A, __arg2: B) -> Pin<Box<dyn Future<Output = R>>>";
        let plain = format!("{signature} {{ Box::pin(async move {{ {ASYNC_TRAIT} }}) }}");
        let instrumented = format!(
            "{signature} {{ Box::pin(async move {{ let s = span(); let f = async move {{ match async move {{ {ASYNC_TRAIT} }}.await {{ x => x }} }}; \
             if on {{ i(f, s).await }} else {{ f.await }} }}) }}"
        );
        for text in [plain, instrumented] {
            let (body, returns, names) = guarded(&text);
            assert!(body.contains("__arg2 } ; GUARD ; let __ret : R ="), "{body}");
            assert_eq!(returns, "R");
            assert_eq!(names, ["self", "a", "b", "c"]);
        }
        let unit = "fn f<'async_trait>() -> X { Box::pin(async move { let _: () = { body }; }) }";
        let (body, returns, _) = guarded(unit);
        assert!(body.contains("{ GUARD ; let _ : () ="), "{body}");
        assert_eq!(returns, "nothing");
    }

    #[test]
    fn refused() {
        for (text, part) in [
            ("fn f() { body }", "goes on an async function"),
            ("fn f() -> impl Future { async { body } }", "write `async move`"),
        ] {
            let function: Function = syn::parse_str(text).unwrap();
            let error = Body::locate(&function).err().unwrap().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
