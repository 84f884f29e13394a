//! Expressions whose value is written in them: `!true`, `-1 as u32`, `2 - 2`.

use syn::{BinOp, Expr, ExprBinary, ExprCast, ExprPath, Lit, Type, UnOp};

use crate::literal::bare;

/// The truth of `expr`, if nothing in a call can change it.
pub(crate) fn truth(expr: &Expr) -> Option<bool> {
    match bare(expr) {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Bool(value) => Some(value.value),
            _ => None,
        },
        Expr::Unary(unary) if matches!(unary.op, UnOp::Not(_)) => truth(&unary.expr).map(|value| !value),
        Expr::Binary(ExprBinary { left, op, right, .. }) => match op {
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
/// a cast to an unsigned type, because that is how it was meant.
pub(crate) fn integer(expr: &Expr) -> Option<i128> {
    match bare(expr) {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(number) => number.base10_parse().ok(),
            _ => None,
        },
        Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => integer(&unary.expr)?.checked_neg(),
        Expr::Cast(ExprCast { expr, ty, .. }) => {
            let value = integer(expr)?;
            (value <= largest(ty)?).then_some(value)
        }
        Expr::Binary(ExprBinary { left, op, right, .. }) => {
            let (left, right) = (integer(left)?, integer(right)?);
            match op {
                BinOp::Add(_) => left.checked_add(right),
                BinOp::Sub(_) => left.checked_sub(right),
                BinOp::Mul(_) => left.checked_mul(right),
                BinOp::Div(_) => left.checked_div(right),
                BinOp::Rem(_) => left.checked_rem(right),
                _ => None,
            }
        }
        Expr::Path(ExprPath { qself: None, path, .. }) => match path.segments.iter().collect::<Vec<_>>().as_slice() {
            [ty, name] if name.ident == "MIN" => {
                INTEGERS.iter().find(|(known, ..)| ty.ident == known).map(|known| known.1)
            }
            _ => None,
        },
        _ => None,
    }
}

/// Integer types, each with a number on the side of zero that its smallest is on, and its largest.
const INTEGERS: [(&str, i128, i128); 12] = [
    ("u8", 0, u8::MAX as i128),
    ("u16", 0, u16::MAX as i128),
    ("u32", 0, u32::MAX as i128),
    ("u64", 0, u64::MAX as i128),
    ("u128", 0, i128::MAX),
    ("usize", 0, u16::MAX as i128),
    ("i8", -1, i8::MAX as i128),
    ("i16", -1, i16::MAX as i128),
    ("i32", -1, i32::MAX as i128),
    ("i64", -1, i64::MAX as i128),
    ("i128", -1, i128::MAX),
    ("isize", -1, i16::MAX as i128),
];

/// What every machine can hold in the type `ty`, if that is an integer.
fn largest(ty: &Type) -> Option<i128> {
    let Type::Path(path) = ty else { return None };
    let name = path.path.get_ident()?;
    INTEGERS.iter().find(|(known, ..)| name == known).map(|known| known.2)
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
            // Not counted out: what a cast or a smallest number makes of it is for the compiler to
            // know.
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
            ("1 / 0", None),
            ("1 as f64", None),
            ("u64::MAX", None),
            ("N", None),
            ("3.5", None),
        ] {
            assert_eq!(integer(&syn::parse_str(text).unwrap()), expected, "{text}");
        }
    }
}
