//! Functions and macros that are known by their names: functions by the end of their path, as
//! `Box::pin` and `std::boxed::Box::pin` are, and the macros of the standard library. Names among
//! tokens.

use proc_macro2::{TokenStream, TokenTree};
use syn::{Expr, Macro, Path};

/// The last two names of `path`, the first of them empty if there is only one.
pub(crate) fn last_two(path: &Path) -> (String, String) {
    let mut names = path
        .segments
        .iter()
        .rev()
        .map(|segment| segment.ident.to_string());
    let last = names.next().unwrap_or_default();
    (names.next().unwrap_or_default(), last)
}

/// The last two names of `function`, if it is a path.
pub(crate) fn of_function(function: &Expr) -> Option<(String, String)> {
    match function {
        Expr::Path(function) => Some(last_two(&function.path)),
        _ => None,
    }
}

/// `true` if `mac` is a macro of the standard library that has a value, by its name alone or by its
/// path there: its effects are those of its arguments.
pub(crate) fn is_standard(mac: &Macro) -> bool {
    let first = mac
        .path
        .segments
        .first()
        .map(|first| first.ident.to_string())
        .unwrap_or_default();
    match last_two(&mac.path).1.as_str() {
        "cfg" | "column" | "concat" | "dbg" | "env" | "file" | "format" | "format_args"
        | "include_bytes" | "include_str" | "line" | "matches" | "module_path" | "option_env"
        | "stringify" | "unreachable" | "vec" => {
            mac.path.segments.len() == 1 || ["std", "core", "alloc"].contains(&first.as_str())
        }
        _ => false,
    }
}

/// `true` if `word` is among `tokens`, at any depth.
pub(crate) fn mentions(tokens: &TokenStream, word: &str) -> bool {
    tokens.clone().into_iter().any(|tree| match tree {
        TokenTree::Ident(ident) => ident == word,
        TokenTree::Group(group) => mentions(&group.stream(), word),
        _ => false,
    })
}
