//! Stage three: what is to be generated. Everything is known to be right; nothing is quoted yet.

pub(crate) mod bounds;
pub(crate) mod check;
pub(crate) mod function;
pub(crate) mod guard;
pub(crate) mod rule_static;
pub(crate) mod taken;
