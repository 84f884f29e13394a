//! Numbers: the values of `max`, `cost`, `burst` and `concurrent`. A literal is checked here, an
//! expression is evaluated at each call.

use quote::ToTokens as _;
use syn::{BinOp, Expr, Lit, UnOp};

use crate::check::values::constant;
use crate::literal::bare;
use crate::parse::arguments::Argument;

pub(crate) enum Number {
    /// Written out: at least 1.
    Fixed(u64),
    /// An expression, evaluated at each call.
    Computed(Expr),
}

/// The largest number that every store counts exactly.
pub(crate) const LARGEST: u64 = (1 << 52) - 1;

/// The words for an argument in error messages.
pub(crate) struct Wording {
    name: &'static str,
    noun: &'static str,
    example: &'static str,
    zero: &'static str,
}

pub(crate) const MAX: Wording = Wording {
    name: "max",
    noun: "limit",
    example: "`max = 3`, or an expression over the arguments",
    zero: "a limit of 0 refuses every call: write `max = 1` or more",
};

pub(crate) const COST: Wording = Wording {
    name: "cost",
    noun: "cost",
    example: "`cost = 5`, or an expression over the arguments",
    zero: "a cost of 0 charges nothing: leave the attribute out, or say with `when` which calls it \
        is for",
};

pub(crate) const BURST: Wording = Wording {
    name: "burst",
    noun: "burst",
    example: "`burst = 10`",
    zero: "a burst of 0 refuses every call: write `burst = 1` or more",
};

pub(crate) const CONCURRENT: Wording = Wording {
    name: "concurrent",
    noun: "limit",
    example: "`concurrent = 5`, or an expression over the arguments",
    zero: "a limit of 0 refuses every call: write `concurrent = 1` or more",
};

/// The number that `digits` write out.
pub(crate) fn counted(digits: &str, noun: &str, zero: &str) -> Result<u64, String> {
    match digits.parse() {
        Ok(0) => Err(zero.to_owned()),
        Ok(number @ 1..=LARGEST) => Ok(number),
        _ => Err(format!(
            "this {noun} is too large to count: at most {LARGEST}"
        )),
    }
}

/// The value of `argument`.
pub(crate) fn read(argument: &Argument, wording: &Wording) -> Result<Number, String> {
    let Wording {
        name,
        noun,
        example,
        zero,
    } = wording;
    let number = |digits: &str| format!("`{name}` is a number: write `{name} = {digits}`");
    Err(match bare(&argument.value) {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(integer) => match integer.suffix() {
                suffix if suffix.is_empty() || constant::INTEGERS.contains(&suffix) => {
                    return counted(integer.base10_digits(), noun, zero).map(Number::Fixed);
                }
                _ => number(integer.base10_digits()),
            },
            Lit::Str(text) if text.value().parse::<u64>().is_ok() => number(&text.value()),
            _ => format!("`{name}` is a whole number: write {example}"),
        },
        value => match (value, folded(value)) {
            (_, None) => return Ok(Number::Computed(argument.value.clone())),
            (Expr::Binary(binary), Some(0)) if matches!(binary.op, BinOp::Div(_)) => {
                format!("whole numbers are divided, so this is 0: write {example}")
            }
            (_, Some(..0)) => format!("a {noun} cannot be negative: write `{name} = 1` or more"),
            (_, Some(value)) => {
                return counted(&value.to_string(), noun, zero).map(Number::Fixed);
            }
        },
    })
}

/// The value of an expression of nothing but literals, which the compiler would reckon in `i32`. A
/// value that is too large for `i128` is the largest.
fn folded(expr: &Expr) -> Option<i128> {
    match bare(expr) {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(integer) if integer.suffix().is_empty() => integer.base10_parse().ok(),
            _ => None,
        },
        Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => {
            folded(&unary.expr)?.checked_neg()
        }
        Expr::Cast(cast)
            if constant::INTEGERS.contains(&&*cast.ty.to_token_stream().to_string()) =>
        {
            folded(&cast.expr)
        }
        Expr::Binary(binary) => {
            let (left, right) = (folded(&binary.left)?, folded(&binary.right)?);
            Some(match binary.op {
                BinOp::Add(_) => left.saturating_add(right),
                BinOp::Sub(_) => left.saturating_sub(right),
                BinOp::Mul(_) => left.saturating_mul(right),
                BinOp::Div(_) => left.checked_div(right).unwrap_or(i128::MAX),
                BinOp::Rem(_) => left.checked_rem(right).unwrap_or(i128::MAX),
                BinOp::Shl(_) => left.saturating_mul(2_i128.saturating_pow(right.try_into().ok()?)),
                _ => return None,
            })
        }
        _ => None,
    }
}
