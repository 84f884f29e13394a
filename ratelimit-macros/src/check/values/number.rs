//! Numbers: the values of `max`, `cost`, `burst` and `concurrent`. A literal is checked here, an
//! expression is evaluated at each call.

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
        // `-3.5`
        Expr::Unary(unary)
            if matches!((&unary.op, bare(&unary.expr)), (UnOp::Neg(_), Expr::Lit(_))) =>
        {
            format!("a {noun} cannot be negative: write `{name} = 1` or more")
        }
        Expr::Binary(binary)
            if matches!(binary.op, BinOp::Div(_))
                && literal(&binary.left)
                    .zip(literal(&binary.right))
                    .is_some_and(|(left, right)| left < right) =>
        {
            format!("whole numbers are divided, so this is 0: write {example}")
        }
        _ => return Ok(Number::Computed(argument.value.clone())),
    })
}

/// The number that an expression is, if it is a literal.
fn literal(expr: &Expr) -> Option<u64> {
    match bare(expr) {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(integer) => integer.base10_parse().ok(),
            _ => None,
        },
        _ => None,
    }
}
