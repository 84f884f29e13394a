//! The arguments that a body under `count` or `actual_cost` takes with it into its block, so that
//! they are dropped in the order of the bare function.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::ext::IdentExt as _;
use syn::{Ident, LitStr};

use crate::check::checked::Checked;
use crate::check::function::body::Shape;
use crate::check::rule::count::Count;

/// The arguments that move into the block, dropped from the last to the first as without the block.
/// Arguments that the body does not name stay outside, because lints would take them for used; so
/// do arguments that `count` or `actual_cost` names.
pub(crate) fn plan(
    Checked {
        function,
        body,
        rules,
        ..
    }: &Checked,
) -> Vec<Ident> {
    let used = match &body.shape {
        Shape::AsyncFn => function.body.stream(),
        Shape::AsyncTrait(ret) => ret.body.stream(),
        // There, arguments are dropped in the order in which the body names them, with this block
        // or without.
        Shape::Future => return Vec::new(),
    };
    let looked_at = |name: &str| {
        rules.iter().any(
            |rule| matches!(&rule.count, Count::By(expr) | Count::ByCost(expr) if names(expr.to_token_stream(), name)),
        )
    };
    // `clippy::used_underscore_binding` would take this for a use of `_name`.
    let arguments = body
        .scope
        .bindings
        .iter()
        .filter(|binding| !binding.conditional && !binding.text().starts_with('_'));
    // Of a receiver, only the field that the body names would move by itself.
    let taken = arguments.map(|binding| &binding.ident).rev();
    let taken = taken.chain(&body.scope.receiver).filter(|ident| {
        let name = ident.unraw().to_string();
        names(used.clone(), &name) && !looked_at(&name)
    });
    taken.cloned().collect()
}

/// `true` if `tokens` use the variable `name`, if only in a format string. Fields are other names,
/// as in `user.name` and `User { name: … }`, and so are paths and labels.
fn names(tokens: TokenStream, name: &str) -> bool {
    let (mut dots, mut label) = (0, false);
    let mut trees = tokens.into_iter().peekable();
    while let Some(tree) = trees.next() {
        let found = match &tree {
            TokenTree::Ident(ident) => {
                ident.unraw() == name && dots != 1 && !label && !is_punct(trees.peek(), ':')
            }
            TokenTree::Group(group) => names(group.stream(), name),
            TokenTree::Literal(literal) => {
                let text = syn::parse2::<LitStr>(literal.to_token_stream());
                text.is_ok_and(|text| text.value().contains(&format!("{{{name}")))
            }
            TokenTree::Punct(_) => false,
        };
        if found {
            return true;
        }
        label = is_punct(Some(&tree), '\'');
        dots = if is_punct(Some(&tree), '.') {
            dots + 1
        } else {
            0
        };
    }
    false
}

fn is_punct(tree: Option<&TokenTree>, char: char) -> bool {
    matches!(tree, Some(TokenTree::Punct(punct)) if punct.as_char() == char)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_of_a_variable_is_found() {
        for (text, expected) in [
            ("email", true),
            ("email.len()", true),
            ("a[..email]", true),
            ("format!(\"{email:?}\")", true),
            ("User { email }", true),
            ("user.email", false),
            ("User { email: user }", false),
            ("email::send()", false),
            ("\"email\"", false),
            ("'email: loop { break 'email; }", false),
        ] {
            let tokens = text.parse::<TokenStream>().unwrap_or_default();
            assert_eq!(names(tokens, "email"), expected, "{text}");
        }
    }
}
