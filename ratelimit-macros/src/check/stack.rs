//! Mistakes that show only across the attributes of one function, which are charged together.

use proc_macro2::Span;
use quote::ToTokens as _;
use syn::{Error, Path};

use crate::check::rule::Rule;
use crate::check::rule::count::Count;
use crate::diagnostics::Diagnostics;
use crate::literal::as_str;
use crate::parse::arguments::Arguments;
use crate::runtime_path;

/// Reports more than 255 attributes: the number of a rule is a `u8`.
pub(crate) fn must_be_numbered(attributes: &[Arguments], diagnostics: &mut Diagnostics) {
    if attributes.len() > usize::from(u8::MAX) {
        let message = "at most 255 limits on one function";
        diagnostics.push(Error::new(Span::call_site(), message));
    }
}

/// Reports two attributes with one name, which would share a bucket.
pub(crate) fn must_have_unique_names(attributes: &[Arguments], diagnostics: &mut Diagnostics) {
    let mut taken = Vec::new();
    for arguments in attributes {
        let Some(name) = arguments.name.as_ref().and_then(|name| as_str(&name.value)) else {
            continue;
        };
        if taken.contains(&name.value()) {
            let message = "another `#[rate_limit]` of this function has this name, and would share \
                its bucket: give each its own";
            diagnostics.error(name, message);
        }
        taken.push(name.value());
    }
}

/// Reports `count` and `actual_cost` on a function that returns nothing, whose outcomes are all
/// equal.
pub(crate) fn must_count_all(
    attributes: &[Arguments],
    rules: &[Option<Rule>],
    diagnostics: &mut Diagnostics,
) {
    for (arguments, rule) in attributes.iter().zip(rules) {
        let (argument, message) = match rule.as_ref().map_or(&Count::All, |rule| &rule.count) {
            Count::All => continue,
            Count::Ok | Count::Err | Count::By(_) => (
                &arguments.count,
                "this function returns nothing, so all its outcomes are the same: leave `count` out",
            ),
            Count::ByCost(_) => (
                &arguments.actual_cost,
                "this function returns nothing that could tell its cost: return it, or leave \
                 `actual_cost` out",
            ),
        };
        if let Some(argument) = argument {
            diagnostics.error(&argument.name, message);
        }
    }
}

/// The one runtime crate of a stack.
pub(crate) fn runtime_crate(
    attributes: &[Arguments],
    diagnostics: &mut Diagnostics,
) -> Option<Path> {
    let mut krate: Option<Path> = None;
    for given in attributes
        .iter()
        .filter_map(|arguments| arguments.krate.as_ref())
    {
        let Some(path) = diagnostics.keep(runtime_path::read(&given.value)) else {
            continue;
        };
        let text = |path: &Path| path.to_token_stream().to_string();
        match &krate {
            Some(first) if text(first) != text(&path) => {
                let message =
                    "stacked attributes share one guard: they cannot use two runtime crates";
                diagnostics.error(&given.value, message);
            }
            _ => krate = Some(path),
        }
    }
    krate
}
