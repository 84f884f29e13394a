//! The async blocks among tokens, found without parsing their insides: these may hold inner
//! attributes and newer syntax, and stay unchanged.

use proc_macro2::{Delimiter, Group, Literal, TokenStream, TokenTree};

/// `tokens` with each async block in them emptied but for its number, from 0, and the blocks.
/// Blocks inside of a block are not numbered.
pub(crate) fn numbered(tokens: TokenStream) -> (TokenStream, Vec<Group>) {
    let mut blocks = Vec::new();
    let (tokens, _) = walk(tokens, &mut |block| {
        let mut number = Literal::usize_unsuffixed(blocks.len());
        number.set_span(block.span());
        blocks.push(block.clone());
        Some(with_stream(block, TokenTree::Literal(number).into()))
    });
    (tokens, blocks)
}

/// `tokens` with `change` applied to the async block of this number. All other blocks stay as they
/// are, with the places of their brackets.
pub(crate) fn replaced(
    tokens: TokenStream,
    number: usize,
    change: &dyn Fn(&Group) -> Group,
) -> TokenStream {
    let mut at = 0;
    let (tokens, _) = walk(tokens, &mut |block| {
        at += 1;
        (at == number + 1).then(|| change(block))
    });
    tokens
}

/// `group` with other tokens in it.
pub(crate) fn with_stream(group: &Group, stream: TokenStream) -> Group {
    let mut other = Group::new(group.delimiter(), stream);
    other.set_span(group.span());
    other
}

/// `tokens` with `change` applied to each async block, and whether any was changed.
fn walk(
    tokens: TokenStream,
    change: &mut dyn FnMut(&Group) -> Option<Group>,
) -> (TokenStream, bool) {
    let mut walked = TokenStream::new();
    let mut any = false;
    // Whether `async` was read last, or `async move`.
    let (mut after_async, mut after_move) = (false, false);
    for tree in tokens {
        let is_body = after_async || after_move;
        let tree = if is_body { visible(tree) } else { tree };
        let replacement = match &tree {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace && is_body => {
                change(group)
            }
            TokenTree::Group(group) => {
                let (stream, changed) = walk(group.stream(), change);
                changed.then(|| with_stream(group, stream))
            }
            _ => None,
        };
        let is = |name: &str| matches!(&tree, TokenTree::Ident(word) if word == name);
        (after_async, after_move) = (is("async"), after_async && is("move"));
        any |= replacement.is_some();
        walked.extend([replacement.map_or(tree, TokenTree::Group)]);
    }
    (walked, any)
}

/// The braces that `macro_rules!` passed on as `$body:block`, out of its invisible brackets.
fn visible(tree: TokenTree) -> TokenTree {
    let TokenTree::Group(group) = &tree else {
        return tree;
    };
    let mut inside = group.stream().into_iter();
    match (group.delimiter(), inside.next(), inside.next()) {
        (Delimiter::None, Some(only), None) => visible(only),
        _ => tree,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn blocks_are_numbered_in_written_order() {
        let text = "f(async { a }); async move { async { b } } async fn g() { async move { #![c] } \
            } async move || { d }";
        let (tokens, blocks) = numbered(text.parse().unwrap());
        let plain = |tokens: TokenStream| tokens.to_string().replace(' ', "");
        assert_eq!(
            plain(tokens),
            "f(async{0});asyncmove{1}asyncfng(){asyncmove{2}}asyncmove||{d}"
        );
        assert_eq!(blocks.len(), 3);
        let change = |block: &Group| with_stream(block, "x".parse().unwrap());
        let expected = "f(async{a});asyncmove{x}asyncfng(){asyncmove{#![c]}}asyncmove||{d}";
        assert_eq!(plain(replaced(text.parse().unwrap(), 1, &change)), expected);
    }
}
