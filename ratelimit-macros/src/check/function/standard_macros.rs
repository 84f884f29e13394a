//! Macros of the standard library that have a value: what they do is what is written in their
//! arguments.

use syn::Macro;

const STANDARD: [&str; 17] = [
    "cfg",
    "column",
    "concat",
    "dbg",
    "env",
    "file",
    "format",
    "format_args",
    "include_bytes",
    "include_str",
    "line",
    "matches",
    "module_path",
    "option_env",
    "stringify",
    "unreachable",
    "vec",
];

/// Whether `mac` is one of them, by its name alone or by its path in the standard library.
pub(crate) fn is_standard(mac: &Macro) -> bool {
    let segments = &mac.path.segments;
    let library = |name: &syn::Ident| name == "std" || name == "core" || name == "alloc";
    let there = segments.len() == 1 || segments.first().is_some_and(|first| library(&first.ident));
    there && segments.last().is_some_and(|last| STANDARD.iter().any(|known| last.ident == known))
}
