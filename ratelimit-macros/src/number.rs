//! Numbers: the values of `max`, `cost` and `burst`.

use syn::{Expr, Lit, UnOp};

use crate::args::{Arg, bare};
use crate::diag::Diagnostics;
use crate::forbidden;
use crate::plan::Number;

/// The largest number that every store counts exactly.
pub(crate) const LARGEST: u64 = (1 << 52) - 1;

/// How messages speak of an argument.
struct Wording {
    name: &'static str,
    noun: &'static str,
    /// What it is a number of.
    of: &'static str,
    example: u64,
    zero: &'static str,
}

const MAX: Wording = Wording {
    name: "max",
    noun: "limit",
    of: "number of calls",
    example: 3,
    zero: "a limit of 0 refuses every call: write `max = 1` or more",
};

const COST: Wording = Wording {
    name: "cost",
    noun: "cost",
    of: "number",
    example: 5,
    zero: "a cost of 0 charges nothing: leave the attribute out, or say with `when` which calls it is for",
};

const BURST: Wording = Wording {
    name: "burst",
    noun: "burst",
    of: "number of calls",
    example: 10,
    zero: "a burst of 0 refuses every call: write `burst = 1` or more",
};

pub(crate) fn max(arg: &Arg<Expr>, diag: &mut Diagnostics) -> Option<Number> {
    number(arg, &MAX, diag)
}

pub(crate) fn cost(arg: &Arg<Expr>, diag: &mut Diagnostics) -> Option<Number> {
    number(arg, &COST, diag)
}

pub(crate) fn burst(arg: &Arg<Expr>, diag: &mut Diagnostics) -> Option<u64> {
    match number(arg, &BURST, diag)? {
        Number::Fixed(burst) => Some(burst),
        Number::Computed(expr) => {
            diag.error(
                expr,
                "`burst` is an integer literal, such as `burst = 10`: for one that changes use a `policy`",
            );
            None
        }
    }
}

/// What is wrong with a number that is written out, if anything.
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

fn number(arg: &Arg<Expr>, wording: &Wording, diag: &mut Diagnostics) -> Option<Number> {
    let Wording { name, noun, of, example, zero } = wording;
    let value = bare(&arg.value);
    let message = match value {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(number) if !is_integer_type(number.suffix()) => {
                format!("`{name}` is a {of}: write `{name} = {}`", number.base10_digits())
            }
            Lit::Int(number) => match number.base10_parse() {
                Err(_) => too_large(noun),
                Ok(number) => match fault(number, noun, zero) {
                    None => return Some(Number::Fixed(number)),
                    Some(fault) => fault,
                },
            },
            Lit::Float(_) => format!("`{name}` is a whole {of}: write `{name} = {example}`"),
            Lit::Str(text) if text.value().parse::<u64>().is_ok() => {
                format!("`{name}` is a number: write `{name} = {}`, without the quotes", text.value())
            }
            _ => format!("`{name}` is a whole {of}: write `{name} = {example}`, or an expression over the arguments"),
        },
        Expr::Unary(unary) if matches!((&unary.op, bare(&unary.expr)), (UnOp::Neg(_), Expr::Lit(_))) => {
            format!("a {noun} cannot be negative: write `{name} = 1` or more")
        }
        _ => {
            forbidden::check(name, value, diag);
            return Some(Number::Computed(arg.value.clone()));
        }
    };
    diag.error(value, message);
    None
}

fn is_integer_type(suffix: &str) -> bool {
    ["", "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize"].contains(&suffix)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn arg(text: &str) -> Arg<Expr> {
        Arg { name: syn::parse_quote!(x), value: syn::parse_str(text).unwrap() }
    }

    fn errors(diag: Diagnostics) -> Vec<String> {
        diag.finish().err().into_iter().flatten().map(|e| e.to_string()).collect()
    }

    #[test]
    fn numbers() {
        let mut diag = Diagnostics::default();
        for text in ["3", "3u32", "0b11", "4_503_599_627_370_495"] {
            assert!(matches!(max(&arg(text), &mut diag), Some(Number::Fixed(_))), "{text}");
        }
        assert!(matches!(cost(&arg("body.len()"), &mut diag), Some(Number::Computed(_))));
        assert_eq!(burst(&arg("10"), &mut diag), Some(10));
        assert!(diag.finish().is_ok());
    }

    #[test]
    fn refused() {
        type Read = fn(&Arg<Expr>, &mut Diagnostics) -> bool;
        let readers: [(&str, Read); 3] = [
            ("max", |arg, diag| max(arg, diag).is_some()),
            ("cost", |arg, diag| cost(arg, diag).is_some()),
            ("burst", |arg, diag| burst(arg, diag).is_some()),
        ];
        for (name, read) in readers {
            for (text, part) in [
                ("-1", "cannot be negative"),
                ("3.5", "whole number"),
                ("\"3\"", "= 3`, without the quotes"),
                ("\"three\"", "whole number"),
                ("true", "whole number"),
                ("3s", "= 3`"),
                ("4503599627370496", "too large"),
                ("18446744073709551616", "too large"),
            ] {
                let mut diag = Diagnostics::default();
                assert!(!read(&arg(text), &mut diag), "{name} = {text}");
                let errors = errors(diag);
                assert_eq!(errors.len(), 1, "{name} = {text}: {errors:?}");
                assert!(errors.iter().all(|e| e.contains(part)), "{name} = {text}: {errors:?}");
            }
            let mut diag = Diagnostics::default();
            read(&arg("f()?"), &mut diag);
            assert!(errors(diag).iter().any(|e| e.contains(&format!("`?` cannot be used in `{name}`"))));
        }
    }

    #[test]
    fn zero_and_computed_bursts() {
        fn said<T>(read: fn(&Arg<Expr>, &mut Diagnostics) -> Option<T>, text: &str) -> String {
            let mut diag = Diagnostics::default();
            read(&arg(text), &mut diag);
            errors(diag).join("; ")
        }
        assert!(said(max, "0").contains("refuses every call"));
        assert!(said(cost, "0").contains("charges nothing: leave the attribute out"));
        assert!(said(burst, "0").contains("refuses every call"));
        assert!(said(burst, "n").contains("an integer literal"));
    }
}
