//! Finds the async blocks among tokens without parsing their insides, which may hold inner
//! attributes and newer syntax, and stay unchanged.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// The async blocks in `tokens`, in written order; not those inside of another.
pub(crate) fn blocks(tokens: TokenStream) -> Vec<Group> {
    let mut blocks = Vec::new();
    let _ = walk(tokens, &mut |block| {
        blocks.push(block.clone());
        None
    });
    blocks
}

/// `tokens` with nothing in their async blocks.
pub(crate) fn emptied(tokens: TokenStream) -> TokenStream {
    walk(tokens, &mut |block| {
        Some(with_stream(block, TokenStream::new()))
    })
    .0
}

/// `group` with `change` applied to the async block that `place` leads to: its number, from 0,
/// behind the number of the block around it. All other blocks stay as they are, with the places of
/// their brackets.
pub(crate) fn changed(group: &Group, place: &[usize], change: &dyn Fn(&Group) -> Group) -> Group {
    let Some((number, rest)) = place.split_first() else {
        return change(group);
    };
    let mut at = 0;
    let (stream, _) = walk(group.stream(), &mut |block| {
        at += 1;
        (at == number + 1).then(|| changed(block, rest, change))
    });
    with_stream(group, stream)
}

/// `group` with `stream` as its content.
pub(crate) fn with_stream(group: &Group, stream: TokenStream) -> Group {
    let mut other = Group::new(group.delimiter(), stream);
    other.set_span(group.span());
    other
}

/// `tokens` with `change` applied to each async block, and `true` if a block was replaced.
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

/// The braces of a block that `macro_rules!` passed on as `$body:block`; any other `tree`
/// unchanged.
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
    fn blocks_are_found_in_written_order() {
        let text = "{ f(async { a }); async move { async { b } } async fn g() { async move { #![c] \
            } } async move || { d } }";
        let group: Group = syn::parse_str(text).unwrap();
        let plain = |tokens: String| tokens.replace(' ', "");
        assert_eq!(
            plain(emptied(group.stream()).to_string()),
            "f(async{});asyncmove{}asyncfng(){asyncmove{}}asyncmove||{d}"
        );
        assert_eq!(blocks(group.stream()).len(), 3);
        let change = |block: &Group| with_stream(block, "x".parse().unwrap());
        for (place, expected) in [
            (
                &[1][..],
                "{f(async{a});asyncmove{x}asyncfng(){asyncmove{#![c]}}asyncmove||{d}}",
            ),
            (
                &[1, 0],
                "{f(async{a});asyncmove{async{x}}asyncfng(){asyncmove{#![c]}}asyncmove||{d}}",
            ),
        ] {
            assert_eq!(plain(changed(&group, place, &change).to_string()), expected);
        }
    }
}
