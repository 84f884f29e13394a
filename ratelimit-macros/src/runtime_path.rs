//! The path of the runtime crate: `::ratelimit_runtime`, unless `crate = …` gives another one.

use syn::{Error, Expr, ExprPath, Path};

use crate::literal::{as_str, bare};

/// Reads the value of `crate = …`: an absolute path, in quotes or not.
pub(crate) fn read(expr: &Expr) -> syn::Result<Path> {
    let path = match (bare(expr), as_str(expr)) {
        (_, Some(text)) => text.parse::<Path>().ok(),
        (
            Expr::Path(ExprPath {
                qself: None, path, ..
            }),
            _,
        ) => Some(path.clone()),
        _ => None,
    };
    let message = "`crate` is the path of the runtime crate: write `crate = ::path`";
    let path = path.ok_or_else(|| Error::new_spanned(expr, message))?;
    let absolute = path.leading_colon.is_some()
        || path
            .segments
            .first()
            .is_some_and(|first| first.ident == "crate" || first.ident == "$crate");
    if absolute {
        return Ok(path);
    }
    let text: Vec<_> = path
        .segments
        .iter()
        .map(|segment| segment.ident.to_string())
        .collect();
    let text = text.join("::");
    let message = format!(
        "a relative path may mean another crate elsewhere: write `::{text}` or `crate::{text}`"
    );
    Err(Error::new_spanned(expr, message))
}
