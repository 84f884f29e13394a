//! `docs/expansion.md` shows the expansions of the crate today. `EXPANSION_DOC=overwrite` writes
//! it.

use std::{env, fs};

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{Attribute, File, ImplItem, Item, Meta};

use crate::stages;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/expansion.md");

#[test]
fn the_document_shows_the_expansions_of_today() {
    let written = fs::read_to_string(DOCUMENT).unwrap();
    let mut expansions = 0;
    let mut actual = String::new();
    let mut before = "";
    // Prose and code take turns.
    for (index, part) in written.split("```").enumerate() {
        let code = part
            .strip_prefix("rust,ignore\n")
            .filter(|_| index % 2 == 1);
        let expected = match code {
            Some(_) if actual.ends_with("becomes\n\n```") => {
                expansions += 1;
                format!("rust,ignore\n{}", expanded(before))
            }
            Some(code) => {
                assert!(
                    !code.contains("__ratelimit"),
                    "nothing says what this is the expansion of: {code}"
                );
                before = code;
                part.to_owned()
            }
            None => part.to_owned(),
        };
        actual.push_str(&expected);
        actual.push_str("```");
    }
    let actual = actual.strip_suffix("```").unwrap();
    assert!(expansions >= 6, "only {expansions} expansions");
    if env::var_os("EXPANSION_DOC").is_some_and(|value| value == "overwrite") {
        fs::write(DOCUMENT, actual).unwrap();
        return;
    }
    let difference = written
        .lines()
        .zip(actual.lines())
        .find(|(written, actual)| written != actual);
    assert!(
        written == actual,
        "run this with EXPANSION_DOC=overwrite: {difference:#?}"
    );
}

/// `code`, pretty-printed, with every `#[rate_limit]` in it expanded.
fn expanded(code: &str) -> String {
    let mut file: File = syn::parse_str(code).unwrap();
    for item in &mut file.items {
        match item {
            Item::Fn(function) => {
                let arguments = take(&mut function.attrs);
                *item = syn::parse2(stages::rate_limit(arguments, item.to_token_stream())).unwrap();
            }
            Item::Impl(implementation) => {
                for item in &mut implementation.items {
                    let ImplItem::Fn(method) = item else { continue };
                    let arguments = take(&mut method.attrs);
                    *item =
                        syn::parse2(stages::rate_limit(arguments, item.to_token_stream())).unwrap();
                }
            }
            _ => {}
        }
    }
    prettyplease::unparse(&file)
}

/// Removes the topmost attribute, and returns its arguments.
fn take(attributes: &mut Vec<Attribute>) -> TokenStream {
    match attributes.remove(0).meta {
        Meta::List(list) if list.path.is_ident("rate_limit") => list.tokens,
        other => unreachable!("not the attribute: {}", other.to_token_stream()),
    }
}
