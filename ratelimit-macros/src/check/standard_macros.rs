//! Macros of the standard library that have a value: what they do is what is written in their arguments.

use syn::Macro;

const STANDARD: [&str; 16] = [
    "cfg",
    "column",
    "concat",
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

/// Whether `mac` is one of them.
pub(crate) fn is_standard(mac: &Macro) -> bool {
    mac.path.segments.last().is_some_and(|name| STANDARD.iter().any(|known| name.ident == known))
}
