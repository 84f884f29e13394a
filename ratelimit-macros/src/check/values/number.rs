//! Numbers: the values of `max`, `cost`, `burst` and `concurrent`.

use syn::{Expr, Lit, UnOp};

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

/// How messages speak of an argument.
pub(crate) struct Wording {
    name: &'static str,
    noun: &'static str,
    /// The things that are counted.
    of: &'static str,
    example: u64,
    zero: &'static str,
}

pub(crate) const MAX: Wording = Wording {
    name: "max",
    noun: "limit",
    of: "number of calls",
    example: 3,
    zero: "a limit of 0 refuses every call: write `max = 1` or more",
};

pub(crate) const COST: Wording = Wording {
    name: "cost",
    noun: "cost",
    of: "number",
    example: 5,
    zero: "a cost of 0 charges nothing: leave the attribute out, or say with `when` which calls it \
        is for",
};

pub(crate) const BURST: Wording = Wording {
    name: "burst",
    noun: "burst",
    of: "number of calls",
    example: 10,
    zero: "a burst of 0 refuses every call: write `burst = 1` or more",
};

pub(crate) const CONCURRENT: Wording = Wording {
    name: "concurrent",
    noun: "limit",
    of: "number of calls",
    example: 5,
    zero: "a limit of 0 refuses every call: write `concurrent = 1` or more",
};

/// The error in a number that is written out, if there is one.
pub(crate) fn fault(number: u64, noun: &str, zero: &str) -> Option<String> {
    match number {
        0 => Some(zero.to_owned()),
        1..=LARGEST => None,
        _ => Some(too_large(noun)),
    }
}

pub(crate) fn too_large(noun: &str) -> String {
    format!("this {noun} is too large to count: at most {LARGEST}")
}

/// The value of `argument`.
pub(crate) fn read(argument: &Argument, wording: &Wording) -> Result<Number, String> {
    let Wording {
        name,
        noun,
        of,
        example,
        zero,
    } = wording;
    let value = bare(&argument.value);
    let negative = || format!("a {noun} cannot be negative: write `{name} = 1` or more");
    Err(match value {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(number)
                if !number.suffix().is_empty()
                    && !constant::INTEGERS.contains(&number.suffix()) =>
            {
                format!(
                    "`{name}` is a {of}: write `{name} = {}`",
                    number.base10_digits()
                )
            }
            Lit::Int(number) => match number.base10_parse() {
                Err(_) => too_large(noun),
                Ok(number) => match fault(number, noun, zero) {
                    None => return Ok(Number::Fixed(number)),
                    Some(fault) => fault,
                },
            },
            Lit::Float(_) => format!("`{name}` is a whole {of}: write `{name} = {example}`"),
            Lit::Str(text) if text.value().parse::<u64>().is_ok() => {
                format!(
                    "`{name}` is a number: write `{name} = {}`, without the quotes",
                    text.value()
                )
            }
            _ => format!(
                "`{name}` is a whole {of}: write `{name} = {example}`, or an expression over the \
                 arguments"
            ),
        },
        // `-3.5`
        Expr::Unary(unary)
            if matches!((&unary.op, bare(&unary.expr)), (UnOp::Neg(_), Expr::Lit(_))) =>
        {
            negative()
        }
        _ => match constant::integer(value) {
            Some(0) => (*zero).to_owned(),
            Some(..0) => negative(),
            Some(1..) | None => {
                return Ok(Number::Computed(argument.value.clone()));
            }
        },
    })
}
