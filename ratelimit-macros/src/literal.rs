//! The literals in expressions, without what may stand around them: parentheses, or the invisible
//! group of a macro that passes one on.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::{Expr, Lit, LitInt, LitStr, Stmt};

/// `expr` without the parentheses, block or invisible group of `macro_rules!` around it.
pub(crate) fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Group(group) if group.attrs.is_empty() => bare(&group.expr),
        Expr::Paren(paren) if paren.attrs.is_empty() => bare(&paren.expr),
        Expr::Block(block) if block.attrs.is_empty() && block.label.is_none() => {
            match block.block.stmts.as_slice() {
                [Stmt::Expr(only, None)] => bare(only),
                _ => expr,
            }
        }
        _ => expr,
    }
}

/// The literal that `expr` is, if it is one.
pub(crate) fn as_literal(expr: &Expr) -> Option<&Lit> {
    match bare(expr) {
        Expr::Lit(literal) => Some(&literal.lit),
        _ => None,
    }
}

/// The string literal that `expr` is, if it is one.
pub(crate) fn as_str(expr: &Expr) -> Option<&LitStr> {
    match as_literal(expr)? {
        Lit::Str(text) => Some(text),
        _ => None,
    }
}

/// The integer literal that `expr` is, if it is one.
pub(crate) fn as_int(expr: &Expr) -> Option<&LitInt> {
    match as_literal(expr)? {
        Lit::Int(number) => Some(number),
        _ => None,
    }
}

/// The string literals among `tokens`, at any depth.
pub(crate) fn strings(tokens: TokenStream) -> Vec<LitStr> {
    let mut found = Vec::new();
    for tree in tokens {
        match tree {
            TokenTree::Literal(literal) => {
                found.extend(syn::parse2::<LitStr>(literal.into_token_stream()));
            }
            TokenTree::Group(group) => found.extend(strings(group.stream())),
            _ => {}
        }
    }
    found
}
