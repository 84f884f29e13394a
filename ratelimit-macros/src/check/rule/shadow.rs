//! `shadow`: whether refusals are only recorded.

use syn::{Expr, Lit};

use crate::literal::as_literal;
use crate::parse::argument::Argument;

pub(crate) enum Shadow {
    Off,
    On,
    If(Expr),
}

pub(crate) fn read(argument: Option<&Argument>) -> Shadow {
    let Some(Argument { value, .. }) = argument else { return Shadow::Off };
    match as_literal(value) {
        Some(Lit::Bool(on)) if on.value => Shadow::On,
        Some(Lit::Bool(_)) => Shadow::Off,
        _ => Shadow::If(value.clone()),
    }
}
