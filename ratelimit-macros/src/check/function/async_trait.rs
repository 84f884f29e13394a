//! Finds the user's body in a method under `#[async_trait]`: `let __ret: R = { … };`.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::{Expr, Pat, Signature, Stmt, Type};

use crate::async_blocks::{self, with_stream};
use crate::check::function::output::{Output, is_unit};
use crate::check::function::scope::Scope;
use crate::check::function::{async_block, exits, names};

/// Whether `#[async_trait]` made this function.
pub(crate) fn made(signature: &Signature) -> bool {
    signature
        .generics
        .lifetimes()
        .any(|lifetime| lifetime.lifetime.ident == "async_trait")
}

/// The way to the statement: the number of the async block it is in, before that the number of the
/// block around that one.
pub(crate) type Place = Vec<usize>;

/// The statement that is the user's body, and the tokens around it in its block.
pub(crate) struct Ret {
    pub(crate) before: TokenStream,
    /// `let __ret: R =`.
    pub(crate) declared: TokenStream,
    pub(crate) body: Group,
    /// From the semicolon on.
    pub(crate) after: TokenStream,
    ty: Type,
}

/// Where in `body` the statement is, and the statement. Other attributes may already have wrapped
/// the method that `#[async_trait]` made.
pub(crate) fn find(body: &TokenStream) -> Option<(Place, Ret)> {
    if let Some(ret) = ret(body) {
        return Some((Place::new(), ret));
    }
    let (tokens, blocks) = async_blocks::numbered(body.clone());
    let statements = async_block::statements(tokens)?;
    // A future in another statement would avoid the limit.
    let (last, others) = statements.split_last()?;
    if others
        .iter()
        .any(|statement| matches!(statement, Stmt::Expr(..)) && exits::statement_leaves(statement))
    {
        return None;
    }
    let candidates = others
        .iter()
        .filter(|statement| matches!(statement, Stmt::Local(_)))
        .chain([last]);
    candidates.filter_map(in_statement).find_map(|number| {
        let (mut place, ret) = find(&blocks.get(number)?.stream())?;
        place.insert(0, number);
        Some((place, ret))
    })
}

/// The number of the async block that `statement` returns.
fn in_statement(statement: &Stmt) -> Option<usize> {
    match statement {
        Stmt::Local(local) => in_expr(&local.init.as_ref()?.expr),
        Stmt::Expr(expr, _) => in_expr(expr),
        _ => None,
    }
}

fn in_expr(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Async(block) => async_block::numbered(block),
        Expr::Block(block) => block.block.stmts.iter().find_map(in_statement),
        Expr::Call(call) if async_block::pins(&call.func) || instruments(&call.func) => {
            call.args.iter().find_map(in_expr)
        }
        Expr::MethodCall(call) => in_expr(&call.receiver),
        Expr::Await(wait) => in_expr(&wait.base),
        Expr::Match(choice) => in_expr(&choice.expr),
        Expr::Paren(paren) => in_expr(&paren.expr),
        Expr::Group(group) => in_expr(&group.expr),
        Expr::Return(exit) => in_expr(exit.expr.as_deref()?),
        _ => None,
    }
}

fn instruments(function: &Expr) -> bool {
    names::of_function(function).is_some_and(|(_, last)| last == "instrument")
}

/// The statement among `tokens`, the inside of a block.
pub(crate) fn ret(tokens: &TokenStream) -> Option<Ret> {
    let mut before = TokenStream::new();
    let mut statement = Vec::new();
    let mut trees = tokens.clone().into_iter();
    while let Some(tree) = trees.next() {
        let end = matches!(&tree, TokenTree::Punct(punct) if punct.as_char() == ';');
        let block =
            matches!(&tree, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
        if end && let Some((declared, body, ty)) = declaration(&statement) {
            let after = std::iter::once(tree).chain(trees).collect();
            return Some(Ret {
                before,
                declared,
                body,
                after,
                ty,
            });
        }
        let is_let = matches!(statement.first(), Some(TokenTree::Ident(word)) if word == "let");
        statement.push(tree);
        if end || (block && !is_let) {
            before.extend(statement.drain(..));
        }
    }
    None
}

/// `let __ret: R =`, the block after it, and `R`, if the statement is of this form. Where a method
/// returns nothing, it is `let _: () =`.
fn declaration(statement: &[TokenTree]) -> Option<(TokenStream, Group, Type)> {
    let (last, declared) = statement.split_last()?;
    let TokenTree::Group(body) = last else {
        return None;
    };
    if body.delimiter() != Delimiter::Brace {
        return None;
    }
    let declared: TokenStream = declared.iter().cloned().collect();
    let mut emptied = declared.clone();
    emptied.extend([TokenTree::Group(with_stream(body, TokenStream::new()))]);
    emptied.extend(std::iter::once(TokenTree::Punct(proc_macro2::Punct::new(
        ';',
        proc_macro2::Spacing::Alone,
    ))));
    let Ok(Stmt::Local(local)) = syn::parse2::<Stmt>(emptied) else {
        return None;
    };
    let Pat::Type(pattern) = local.pat else {
        return None;
    };
    let named = match &*pattern.pat {
        Pat::Ident(name) => name.ident == "__ret",
        Pat::Wild(_) => is_unit(&pattern.ty),
        _ => false,
    };
    named.then(|| (declared, body.clone(), *pattern.ty))
}

impl Ret {
    /// The names bound before the statement, added to those that the signature binds, `scope`.
    pub(crate) fn scope(&self, mut scope: Scope) -> Scope {
        // Arguments taken apart by a pattern are `__arg1` in the signature.
        scope.bindings.retain(|binding| {
            !binding
                .text()
                .strip_prefix("__arg")
                .is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        });
        let (before, _) = async_blocks::numbered(self.before.clone());
        for statement in async_block::statements(before).unwrap_or_default() {
            let Stmt::Local(local) = statement else {
                continue;
            };
            match &local.pat {
                Pat::Ident(name) if name.ident == "__self" => {
                    scope.receiver = Some(name.ident.clone());
                }
                // `let email = email;` keeps the entry that the signature has for `email`.
                Pat::Ident(name)
                    if scope.bindings.iter().any(|known| known.ident == name.ident) => {}
                pattern => scope.bind(
                    pattern,
                    local
                        .attrs
                        .iter()
                        .any(|attribute| attribute.path().is_ident("cfg")),
                ),
            }
        }
        scope
    }

    /// The output of the statement, the body of `signature`.
    pub(crate) fn output(&self, signature: &Signature) -> Output {
        Output::of_type(&self.ty, signature.ident.to_token_stream())
    }
}
