//! Expansions as text to compare.

use proc_macro2::TokenStream;

use crate::stages;

/// `function`, annotated with `#[rate_limit(arguments)]`, expanded, without white space.
pub(super) fn expanded(arguments: &str, function: &str) -> String {
    let expanded = normal(&stages::rate_limit(arguments.parse().unwrap(), function.parse().unwrap()));
    assert!(!expanded.contains("compile_error"), "{expanded}");
    expanded
}

/// `tokens` without white space.
pub(super) fn normal(tokens: &TokenStream) -> String {
    tokens.to_string().split_whitespace().collect()
}

/// The messages of the errors in `tokens`.
pub(super) fn errors(tokens: &TokenStream) -> Vec<String> {
    let file: syn::File = syn::parse_quote!(fn f() { #tokens });
    let mut errors = Errors(Vec::new());
    syn::visit::Visit::visit_file(&mut errors, &file);
    errors.0
}

struct Errors(Vec<String>);

impl<'ast> syn::visit::Visit<'ast> for Errors {
    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        let message: syn::LitStr = mac.parse_body().unwrap();
        self.0.push(message.value());
    }
}
