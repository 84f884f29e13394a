//! Finds the async block that a plain function returns, and checks that no path avoids it.
//!
//! The limit is asked inside of the block. So the block has to be all that the function does: code
//! before it, or around it, would run for refused calls too, leave the function without asking, or
//! lose the refusal.

use proc_macro2::TokenStream;
use quote::ToTokens as _;
use syn::{Block, Error, Expr, ExprAsync, Item, Stmt};

use crate::async_blocks;
use crate::check::function::preparation::{self, Prepared};
use crate::check::function::{exits, names};

/// The future of a plain function.
pub(crate) struct Future {
    /// The number of its async block among those of the body.
    pub(crate) number: usize,
    /// The locals before it.
    pub(crate) locals: Vec<Prepared>,
}

/// The future that `body`, the inside of a function's braces, ends in. `None` if there is none.
pub(crate) fn find(body: TokenStream) -> Option<syn::Result<Future>> {
    let (tokens, blocks) = async_blocks::numbered(body);
    if blocks.is_empty() {
        return None;
    }
    let statements = statements(tokens)?;
    let mut locals = Vec::new();
    let found = in_statements(&statements, &mut locals)?;
    Some(found.map(|number| Future { number, locals }))
}

/// The statements in `tokens`, after inner attributes.
pub(crate) fn statements(tokens: TokenStream) -> Option<Vec<Stmt>> {
    use syn::parse::Parser as _;
    let read = |input: syn::parse::ParseStream<'_>| {
        syn::Attribute::parse_inner(input)?;
        Block::parse_within(input)
    };
    read.parse2(tokens).ok()
}

fn in_statements(statements: &[Stmt], locals: &mut Vec<Prepared>) -> Option<syn::Result<usize>> {
    let (last, before) = statements.split_last()?;
    let future = match last {
        Stmt::Expr(expr, None) | Stmt::Expr(expr @ Expr::Return(_), Some(_)) => {
            in_expr(expr, locals)
        }
        _ => None,
    }?;
    let mut errors: Option<Error> = None;
    for statement in before {
        match judged(statement) {
            Ok(prepared) => locals.extend(prepared),
            Err(error) => match &mut errors {
                Some(errors) => errors.combine(error),
                None => errors = Some(error),
            },
        }
    }
    match (future, errors) {
        (Err(mut error), Some(errors)) => {
            error.combine(errors);
            Some(Err(error))
        }
        (_, Some(errors)) => Some(Err(errors)),
        (future, None) => Some(future),
    }
}

/// The locals of a statement before the future; an error if it does more than bind them.
fn judged(statement: &Stmt) -> syn::Result<Vec<Prepared>> {
    match statement {
        Stmt::Item(Item::Macro(item)) if item.ident.is_none() => {}
        Stmt::Item(_) => return Ok(Vec::new()),
        Stmt::Local(local) => {
            if let Some(prepared) = preparation::of(local) {
                return Ok(prepared);
            }
        }
        _ => {}
    }
    let what = if exits::statement_leaves(statement) {
        "this may leave the function without asking the limit, which is asked in the `async move` \
         block"
    } else {
        "this runs before the limit is asked, and for refused calls too"
    };
    let message =
        format!("{what}: move it into the `async move` block, or make the function an `async fn`");
    Err(Error::new_spanned(statement, message))
}

fn in_expr(expr: &Expr, locals: &mut Vec<Prepared>) -> Option<syn::Result<usize>> {
    match expr {
        Expr::Async(block) => Some(number(block)),
        Expr::Cast(cast) => in_expr(&cast.expr, locals),
        Expr::Paren(paren) => in_expr(&paren.expr, locals),
        Expr::Group(group) => in_expr(&group.expr, locals),
        Expr::Return(exit) => in_expr(exit.expr.as_deref()?, locals),
        Expr::Block(block) if block.label.is_none() => in_statements(&block.block.stmts, locals),
        Expr::Unsafe(block) => in_statements(&block.block.stmts, locals),
        Expr::Call(call) => {
            let only = call.args.first().filter(|_| call.args.len() == 1);
            match only {
                Some(future) if pins(&call.func) => in_expr(future, locals),
                _ => around(&call.func.to_token_stream(), expr),
            }
        }
        Expr::MethodCall(call) => match call.method.to_string().as_str() {
            // These hand the future on as it is.
            "boxed"
            | "boxed_local"
            | "fuse"
            | "in_current_span"
            | "instrument"
            | "into"
            | "into_future"
            | "left_future"
            | "right_future"
            | "with_current_subscriber"
            | "with_subscriber"
                if !call.args.iter().any(exits::leaves) =>
            {
                in_expr(&call.receiver, locals)
            }
            _ => around(&call.method.to_token_stream(), expr),
        },
        Expr::If(_) | Expr::Match(_) => {
            let message = "the function returns one of several futures, and the limit goes into \
                one: make the function an `async fn`, or put the choice inside of one `async move` \
                block";
            has_future(expr).then(|| Err(Error::new_spanned(expr, message)))
        }
        _ => has_future(expr).then(|| Err(Error::new_spanned(expr, NOT_LAST))),
    }
}

const NOT_LAST: &str = "the limit needs the future to be what the function returns: make the \
    function an `async fn`, or end the body with `async move { … }`";

/// Whether a function returns the future that it is given, as it is.
pub(crate) fn pins(function: &Expr) -> bool {
    let Some((owner, last)) = names::of_function(function) else {
        return false;
    };
    matches!(
        (owner.as_str(), last.as_str()),
        ("Box", "pin" | "new" | "into_pin")
            | ("Pin", "new" | "from")
            | ("Either", "Left" | "Right")
            | ("BoxFuture" | "LocalBoxFuture" | "Into", "from" | "into")
    )
}

/// The error for a call, `name`, around the future; `None` if there is no future in it.
fn around(name: &TokenStream, call: &Expr) -> Option<syn::Result<usize>> {
    let name: String = name.to_string().split_whitespace().collect();
    let message = format!(
        "`{name}` is given the future with the limit in it, and may run it twice, change the \
         refusal or lose it: call it inside of the `async move` block, or make the function an \
         `async fn`"
    );
    has_future(call).then(|| Err(Error::new_spanned(call, message)))
}

/// Whether an async block is somewhere in `expr`, outside of closures.
fn has_future(expr: &Expr) -> bool {
    struct Finder(bool);
    impl syn::visit::Visit<'_> for Finder {
        fn visit_expr(&mut self, expr: &Expr) {
            match expr {
                Expr::Async(_) => self.0 = true,
                Expr::Closure(_) => {}
                _ => syn::visit::visit_expr(self, expr),
            }
        }
        fn visit_item(&mut self, _: &Item) {}
    }
    let mut finder = Finder(false);
    syn::visit::Visit::visit_expr(&mut finder, expr);
    finder.0
}

/// The number of an async block.
pub(crate) fn number(block: &ExprAsync) -> syn::Result<usize> {
    if block.capture.is_none() {
        let message = "the limit needs the arguments inside the future: write `async move`";
        return Err(Error::new_spanned(block.async_token, message));
    }
    numbered(block).ok_or_else(|| Error::new_spanned(block.async_token, NOT_LAST))
}

/// The number that stands in the emptied block.
pub(crate) fn numbered(block: &ExprAsync) -> Option<usize> {
    match block.block.stmts.first()? {
        Stmt::Expr(
            Expr::Lit(syn::ExprLit {
                lit: syn::Lit::Int(number),
                ..
            }),
            None,
        ) => number.base10_parse().ok(),
        _ => None,
    }
}
