//! Literals inside expressions.

use syn::{Expr, Lit, LitInt, LitStr};

/// `expr` without the invisible brackets that `macro_rules!` puts around what it passes on.
pub(crate) fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Group(group) if group.attrs.is_empty() => bare(&group.expr),
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
