//! Expressions whose value is written in them: `!true`, `-1 as u32`, `2 - 2`.

use syn::{BinOp, Expr, ExprBinary, Lit, Type, UnOp};

use crate::check::function::names::last_two;
use crate::literal::bare;

/// The truth of `expr`, if nothing in a call can change it.
pub(crate) fn truth(expr: &Expr) -> Option<bool> {
    match bare(expr) {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Bool(value) => Some(value.value),
            _ => None,
        },
        Expr::Unary(unary) if matches!(unary.op, UnOp::Not(_)) => {
            truth(&unary.expr).map(|value| !value)
        }
        Expr::Binary(ExprBinary {
            left, op, right, ..
        }) => match op {
            BinOp::And(_) => decided(false, truth(left), truth(right)),
            BinOp::Or(_) => decided(true, truth(left), truth(right)),
            _ => None,
        },
        _ => None,
    }
}

/// `&&` and `||`, where one side that is `decides` is enough.
fn decided(decides: bool, left: Option<bool>, right: Option<bool>) -> Option<bool> {
    if left == Some(decides) || right == Some(decides) {
        return Some(decides);
    }
    (left.is_some() && right.is_some()).then_some(!decides)
}

/// The integer that `expr` is, if nothing in a call can change it. A negative one stays negative in
/// a cast to an unsigned type, because a negative number was meant.
pub(crate) fn integer(expr: &Expr) -> Option<i128> {
    match bare(expr) {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(number) => number.base10_parse().ok(),
            _ => None,
        },
        Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => {
            integer(&unary.expr)?.checked_neg()
        }
        // In a type of the user's own, or in a smaller one, it may be another number.
        Expr::Cast(cast) => {
            integer(&cast.expr).filter(|value| *value <= 127 && is_integer(&cast.ty))
        }
        Expr::Binary(ExprBinary {
            left, op, right, ..
        }) => {
            let (left, right) = (integer(left)?, integer(right)?);
            match op {
                BinOp::Add(_) => left.checked_add(right),
                BinOp::Sub(_) => left.checked_sub(right),
                BinOp::Mul(_) => left.checked_mul(right),
                _ => None,
            }
        }
        Expr::Path(path) => {
            let (ty, name) = last_two(&path.path);
            let smallest = if ty.starts_with('u') { 0 } else { -1 };
            (name == "MIN" && INTEGERS.contains(&ty.as_str())).then_some(smallest)
        }
        _ => None,
    }
}

/// The types of integers, as suffixes of literals too.
pub(crate) const INTEGERS: [&str; 12] = [
    "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize",
];

fn is_integer(ty: &Type) -> bool {
    matches!(ty, Type::Path(path) if INTEGERS.iter().any(|name| path.path.is_ident(name)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn truths() {
        for (text, expected) in [
            ("true", Some(true)),
            ("!true", Some(false)),
            ("(!({ true }))", Some(false)),
            ("a.b() && false", Some(false)),
            ("a && true", None),
            ("a || true", Some(true)),
            ("false || false", Some(false)),
            // Comparisons are left to the compiler.
            ("1 > 2", None),
            ("(-1i32) as u64 > 0", None),
            ("a", None),
            ("|_| false", None),
        ] {
            assert_eq!(truth(&syn::parse_str(text).unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn integers() {
        for (text, expected) in [
            ("3", Some(3)),
            ("0x10u8", Some(16)),
            ("-1", Some(-1)),
            ("(-1i32) as u64", Some(-1)),
            ("2 * 3 + 1", Some(7)),
            ("u64::MIN", Some(0)),
            ("i8::MIN", Some(-1)),
            ("300 as u8", None),
            ("1 as f64", None),
            ("u64::MAX", None),
            ("N", None),
            ("3.5", None),
        ] {
            assert_eq!(integer(&syn::parse_str(text).unwrap()), expected, "{text}");
        }
    }
}
