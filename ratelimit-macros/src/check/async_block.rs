//! Finds the async block that a plain function returns.

use syn::{Block, Expr, ExprAsync, Stmt};

/// The async block that is the last expression of `body`, or that it hands on.
pub(crate) fn find(body: &mut Block) -> Option<&mut ExprAsync> {
    match body.stmts.last_mut()? {
        Stmt::Expr(expr, _) => find_in(expr),
        _ => None,
    }
}

fn find_in(expr: &mut Expr) -> Option<&mut ExprAsync> {
    match expr {
        Expr::Async(block) => Some(block),
        // Box::pin(…), Box::new(…).into(), (…).boxed()
        Expr::Call(call) if call.args.len() == 1 => find_in(call.args.first_mut()?),
        Expr::MethodCall(call) => find_in(&mut call.receiver),
        Expr::Cast(cast) => find_in(&mut cast.expr),
        Expr::Paren(paren) => find_in(&mut paren.expr),
        Expr::Group(group) => find_in(&mut group.expr),
        Expr::Return(ret) => find_in(ret.expr.as_deref_mut()?),
        Expr::Block(block) => find(&mut block.block),
        Expr::Unsafe(block) => find(&mut block.block),
        _ => None,
    }
}
