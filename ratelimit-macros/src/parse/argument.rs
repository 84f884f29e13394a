//! One argument of the attribute.

use syn::{Expr, Ident};

/// An argument with the name it was given under. One that stands alone, as `shadow` may, has the
/// value `true`.
pub(crate) struct Argument {
    pub(crate) name: Ident,
    pub(crate) value: Expr,
}
