//! Functions that are known by the end of their path, as `Box::pin` and `std::boxed::Box::pin` are.

use syn::{Expr, Path};

/// The last two names of `path`, the first of them empty if there is only one.
pub(crate) fn of(path: &Path) -> (String, String) {
    let mut names = path.segments.iter().rev().map(|segment| segment.ident.to_string());
    let last = names.next().unwrap_or_default();
    (names.next().unwrap_or_default(), last)
}

/// Those of `function`, if it is a path.
pub(crate) fn of_function(function: &Expr) -> Option<(String, String)> {
    match function {
        Expr::Path(function) => Some(of(&function.path)),
        _ => None,
    }
}
