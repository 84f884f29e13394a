//! Values that an expression spells out, such as `false` and `-1`: by them an argument that has no
//! effect in any call, or a cost that no limit admits, is an error at compile time.

use syn::{BinOp, Expr, Lit, UnOp};

use crate::literal::{as_int, bare};

/// `true` if `expr` is false in every call, as `false` is, and `plan.is_free() && false`.
pub(crate) fn is_false(expr: &Expr) -> bool {
    match bare(expr) {
        Expr::Lit(literal) => matches!(&literal.lit, Lit::Bool(value) if !value.value),
        Expr::Binary(both) => {
            matches!(both.op, BinOp::And(_)) && (is_false(&both.left) || is_false(&both.right))
        }
        _ => false,
    }
}

/// The integer that `expr` is.
pub(crate) fn integer(expr: &Expr) -> Option<i128> {
    match bare(expr) {
        Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => {
            integer(&unary.expr)?.checked_neg()
        }
        value => as_int(value)?.base10_parse().ok(),
    }
}

/// The types of integers, as suffixes of literals too.
pub(crate) const INTEGERS: [&str; 12] = [
    "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize",
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn what_is_written_out_is_known() {
        for (text, expected) in [
            ("false", true),
            ("a.b() && false", true),
            ("({ false }) && a", true),
            ("true", false),
            ("a && true", false),
            ("a || false", false),
            ("|_| false", false),
        ] {
            assert_eq!(is_false(&syn::parse_str(text).unwrap()), expected, "{text}");
        }
        for (text, expected) in [
            ("3", Some(3)),
            ("0x10u8", Some(16)),
            ("-(1)", Some(-1)),
            ("N", None),
            ("3.5", None),
        ] {
            assert_eq!(integer(&syn::parse_str(text).unwrap()), expected, "{text}");
        }
    }
}
