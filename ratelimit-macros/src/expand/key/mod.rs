//! Keys: those of templates, and how a type of the user's is part of one.

pub(crate) mod key_macro;
pub(crate) mod key_part;
pub(crate) mod pieces;
