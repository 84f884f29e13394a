//! The user's expressions inside the guard. `self` may have another name there, as under
//! `#[async_trait]`. A `return` in a user's macro must not end the function before the check.

use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};
use syn::Expr;

use crate::async_blocks::with_stream;
use crate::check::values::control_flow;
use crate::expand::spans::located;

/// The name of `self` where the guard stands, if there is one.
pub(crate) struct Receiver<'a>(pub(crate) Option<&'a Ident>);

impl Receiver<'_> {
    /// The user's expression, as an argument of a call.
    pub(crate) fn expression(&self, expr: &Expr) -> TokenStream {
        let tokens = expr.to_token_stream();
        match self.0 {
            Some(receiver) if receiver != "self" => rename_self(tokens, receiver),
            _ => tokens,
        }
    }

    /// The user's expression, as an operand.
    pub(crate) fn operand(&self, expr: &Expr) -> TokenStream {
        let tokens = self.expression(expr);
        let mut group = Group::new(Delimiter::Parenthesis, tokens);
        group.set_span(located(expr));
        TokenTree::Group(group).into()
    }
}

/// `call`, which evaluates `expr`. It stands in a closure if `expr` has a user's macro, whose
/// `return` or `?` would end the function before the check. The closure returns a type of its own,
/// which such a `return` cannot give, and which compile errors name.
pub(crate) fn kept_in(expr: &Expr, call: TokenStream) -> TokenStream {
    if !control_flow::is_hidden(expr) {
        return call;
    }
    let span = located(expr);
    quote_spanned! {span=>
        {
            struct AMacroHereCannotReturn;
            (|| -> (_, AMacroHereCannotReturn) { (#call, AMacroHereCannotReturn) })().0
        }
    }
}

/// `tokens` with every `self` that is a value renamed to `receiver`.
fn rename_self(tokens: TokenStream, receiver: &Ident) -> TokenStream {
    let mut trees = tokens.into_iter().peekable();
    let mut renamed = TokenStream::new();
    while let Some(tree) = trees.next() {
        let path = matches!(trees.peek(), Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
        let tree = match tree {
            TokenTree::Ident(ident) if ident == "self" && !path => {
                let mut receiver = receiver.clone();
                receiver.set_span(ident.span());
                TokenTree::Ident(receiver)
            }
            TokenTree::Group(group) => {
                let renamed = rename_self(group.stream(), receiver);
                TokenTree::Group(with_stream(&group, renamed))
            }
            other => other,
        };
        renamed.extend([tree]);
    }
    renamed
}
