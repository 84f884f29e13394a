//! Finds the async block that is all of a plain function.
//!
//! The limit is asked inside of the block. Code before it, or around it, would run for refused
//! calls too, leave the function without asking, or lose the refusal.

use proc_macro2::{Group, TokenStream};
use quote::ToTokens as _;
use syn::{Attribute, Block, Error, Expr, ExprAsync, Stmt};

use crate::async_blocks;
use crate::check::function::names;

/// The block that `body`, the inside of a function's braces, is. `None` if it ends in no async
/// block.
///
/// # Errors
///
/// If there is code beside the block, or the block borrows the arguments.
pub(crate) fn find(body: &TokenStream) -> syn::Result<Option<Group>> {
    let statements = statements(async_blocks::emptied(body.clone())).unwrap_or_default();
    let Some((last, before)) = statements.split_last() else {
        return Ok(None);
    };
    let (Stmt::Expr(value, None) | Stmt::Expr(value @ Expr::Return(_), Some(_))) = last else {
        return Ok(None);
    };
    match (returned(value), before) {
        (Some(future), []) if future.capture.is_none() => {
            let message = "the limit needs the arguments inside the future: write `async move`";
            Err(Error::new_spanned(future.async_token, message))
        }
        (Some(_), []) => Ok(async_blocks::blocks(body.clone()).pop()),
        (Some(_), before) => {
            let before: TokenStream = before.iter().map(Stmt::to_token_stream).collect();
            Err(Error::new_spanned(before, BESIDE))
        }
        (None, _) if async_blocks::blocks(value.to_token_stream()).is_empty() => Ok(None),
        (None, _) => Err(Error::new_spanned(value, BESIDE)),
    }
}

const BESIDE: &str = "the limit is asked inside of the future, so no code may stand before it or \
    around it: write an `async fn`, or make `Box::pin(async move { … })` the only expression of \
    the body";

/// The statements in `tokens`, after inner attributes.
pub(crate) fn statements(tokens: TokenStream) -> Option<Vec<Stmt>> {
    use syn::parse::Parser as _;
    let read = |input: syn::parse::ParseStream<'_>| {
        Attribute::parse_inner(input)?;
        Block::parse_within(input)
    };
    read.parse2(tokens).ok()
}

/// The async block in `expr`, which is a block or pins one in a box.
fn returned(expr: &Expr) -> Option<&ExprAsync> {
    match expr {
        Expr::Async(block) => Some(block),
        Expr::Group(group) => returned(&group.expr),
        Expr::Call(call) if call.args.len() == 1 && is_pin(&call.func) => {
            returned(call.args.first()?)
        }
        _ => None,
    }
}

fn is_pin(function: &Expr) -> bool {
    names::of_function(function)
        .is_some_and(|(owner, last)| (owner.as_str(), last.as_str()) == ("Box", "pin"))
}
