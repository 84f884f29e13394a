//! Expands key templates, and derives `KeyPart` for the user's types.

pub(crate) mod key_macro;
pub(crate) mod key_part;
pub(crate) mod pieces;
