//! The arguments of a function that its attributes mention. Where these have errors, they are all
//! that is left of the use that would have been made of an argument: that it is unused would be a
//! second report of one mistake.

use proc_macro2::{TokenStream, TokenTree};
use syn::ext::IdentExt as _;
use syn::{Ident, LitStr};

use crate::check::function::scope::{Binding, Scope};
use crate::parse::function::Function;
use crate::suggest::nearest;

/// A word of an attribute.
pub(crate) struct Word {
    text: String,
    /// Whether it stands in a string, where it may be a misspelt placeholder.
    in_text: bool,
}

/// The words in `arguments`, and in the attributes of `item`.
pub(crate) fn words(arguments: &TokenStream, item: &TokenStream) -> Vec<Word> {
    let mut words = Vec::new();
    collect(arguments.clone(), &mut words);
    let mut after_hash = false;
    for tree in item.clone() {
        match &tree {
            TokenTree::Group(group) if after_hash => collect(group.stream(), &mut words),
            _ => {}
        }
        after_hash = matches!(&tree, TokenTree::Punct(punct) if punct.as_char() == '#');
    }
    words
}

fn collect(tokens: TokenStream, words: &mut Vec<Word>) {
    for tree in tokens {
        match tree {
            TokenTree::Ident(ident) => words.push(Word { text: ident.unraw().to_string(), in_text: false }),
            TokenTree::Group(group) => collect(group.stream(), words),
            TokenTree::Literal(literal) => {
                let Ok(text) = syn::parse2::<LitStr>(TokenTree::Literal(literal).into()) else { continue };
                let text = text.value();
                let parts = text.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|part| !part.is_empty());
                words.extend(parts.map(|part| Word { text: part.to_owned(), in_text: true }));
            }
            TokenTree::Punct(_) => {}
        }
    }
}

/// The arguments of `function` that `words` name, or nearly.
pub(crate) fn by(words: &[Word], function: &Function) -> Vec<Ident> {
    let scope = Scope::of(&function.signature);
    let always = || scope.bindings.iter().filter(|binding| !binding.conditional);
    let names: Vec<String> = always().map(Binding::text).collect();
    let meant: Vec<&str> = words
        .iter()
        .filter_map(|Word { text, in_text }| {
            let exact = names.iter().find(|name| *name == text).map(String::as_str);
            exact.or_else(|| nearest(text, names.iter().map(String::as_str)).filter(|_| *in_text))
        })
        .collect();
    always().filter(|binding| meant.contains(&binding.text().as_str())).map(|binding| binding.ident.clone()).collect()
}
