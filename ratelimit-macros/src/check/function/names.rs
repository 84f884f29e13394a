//! Names: of functions, by the last two segments of their path, as in `std::boxed::Box::pin`; of
//! the standard library's macros; among tokens.

use proc_macro2::{TokenStream, TokenTree};
use syn::punctuated::Punctuated;
use syn::{Expr, Macro, Path, PathSegment, Token};

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

/// `true` if `mac` names a macro of the standard library that yields a value, alone or by its path
/// there: it has no effects but those of its arguments.
pub(crate) fn is_standard(mac: &Macro) -> bool {
    let segments = &mac.path.segments;
    let roots = ["std", "core", "alloc"];
    let is_root = |first: &PathSegment| roots.iter().any(|root| first.ident == root);
    match last_two(&mac.path).1.as_str() {
        "cfg" | "column" | "concat" | "dbg" | "env" | "file" | "format" | "format_args"
        | "include_bytes" | "include_str" | "line" | "matches" | "module_path" | "option_env"
        | "stringify" | "unreachable" | "vec" => {
            segments.len() == 1 || segments.first().is_some_and(is_root)
        }
        _ => false,
    }
}

/// The arguments of `mac`, if it is a macro of the standard library and they are expressions.
pub(crate) fn standard_arguments(mac: &Macro) -> Option<Punctuated<Expr, Token![,]>> {
    let read = mac.parse_body_with(Punctuated::parse_terminated).ok();
    read.filter(|_| is_standard(mac))
}

/// `true` if `word` is among `tokens`, at any depth.
pub(crate) fn mentions(tokens: &TokenStream, word: &str) -> bool {
    tokens.clone().into_iter().any(|tree| match tree {
        TokenTree::Ident(ident) => ident == word,
        TokenTree::Group(group) => mentions(&group.stream(), word),
        _ => false,
    })
}
