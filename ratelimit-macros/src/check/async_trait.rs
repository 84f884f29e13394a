//! Finds the user's body in what `#[async_trait]` made of a method: `let __ret: R = { … };`.

use quote::ToTokens as _;
use syn::{Block, Expr, Pat, Signature, Stmt, Type};

use crate::check::output::{Output, is_unit};
use crate::check::scope::Scope;

/// Whether `#[async_trait]` made this function.
pub(crate) fn made(signature: &Signature) -> bool {
    signature.generics.lifetimes().any(|lifetime| lifetime.lifetime.ident == "async_trait")
}

/// The block that holds `let __ret: R = { … };`, and the index of that statement. Other attributes may
/// already have wrapped what `#[async_trait]` made.
pub(crate) fn find(block: &mut Block) -> Option<(&mut Block, usize)> {
    if let Some(index) = block.stmts.iter().position(|statement| ret_type(statement).is_some()) {
        return Some((block, index));
    }
    block.stmts.iter_mut().find_map(|statement| match statement {
        Stmt::Local(local) => find_in(&mut local.init.as_mut()?.expr),
        Stmt::Expr(expr, _) => find_in(expr),
        _ => None,
    })
}

fn find_in(expr: &mut Expr) -> Option<(&mut Block, usize)> {
    match expr {
        Expr::Async(block) => find(&mut block.block),
        Expr::Block(block) => find(&mut block.block),
        Expr::Call(call) => call.args.iter_mut().find_map(find_in),
        Expr::MethodCall(call) => {
            let parts = std::iter::once(&mut *call.receiver).chain(&mut call.args);
            parts.into_iter().find_map(find_in)
        }
        Expr::Await(wait) => find_in(&mut wait.base),
        Expr::Match(choice) => find_in(&mut choice.expr),
        Expr::Paren(paren) => find_in(&mut paren.expr),
        Expr::Group(group) => find_in(&mut group.expr),
        Expr::Return(ret) => find_in(ret.expr.as_deref_mut()?),
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

/// What is bound before statement `index` of `block`, in addition to what the signature binds, `scope`.
pub(crate) fn scope(block: &Block, index: usize, mut scope: Scope) -> Scope {
    // Arguments taken apart by a pattern are `__arg1` in the signature.
    scope.bindings.retain(|binding| {
        !binding.text().strip_prefix("__arg").is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    });
    for statement in block.stmts.iter().take(index) {
        let Stmt::Local(local) = statement else { continue };
        match &local.pat {
            Pat::Ident(name) if name.ident == "__self" => scope.receiver = Some(name.ident.clone()),
            // `let email = email;` keeps what the signature says of `email`.
            Pat::Ident(name) if scope.bindings.iter().any(|known| known.ident == name.ident) => {}
            pattern => scope.bind(pattern, local.attrs.iter().any(|attribute| attribute.path().is_ident("cfg"))),
        }
    }
    scope
}

/// What statement `index` of `block` gives, the body of `signature`.
pub(crate) fn output(block: &Block, index: usize, signature: &Signature) -> Output {
    let ty = block.stmts.get(index).and_then(ret_type);
    ty.map_or(Output::Unknown, |ty| Output::of_type(ty, signature.ident.to_token_stream()))
}
