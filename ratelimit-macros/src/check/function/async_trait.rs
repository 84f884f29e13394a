//! Finds the user's body in a method under `#[async_trait]`: `let __ret: R = { … };`.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::ext::IdentExt as _;
use syn::parse::{ParseStream, Parser as _};
use syn::{Ident, Pat, Signature, Stmt, Token, Type};

use crate::async_blocks;
use crate::check::function::async_block;
use crate::check::function::output::{Output, is_unit};
use crate::check::function::scope::Scope;

/// `true` if `#[async_trait]` made this function.
pub(crate) fn made(signature: &Signature) -> bool {
    signature
        .generics
        .lifetimes()
        .any(|lifetime| lifetime.lifetime.ident == "async_trait")
}

/// The statement that is the user's body, and the tokens around it in its block.
pub(crate) struct Ret {
    /// The way to that block: see [`async_blocks::changed`].
    pub(crate) place: Vec<usize>,
    pub(crate) before: TokenStream,
    /// `let __ret: R =`.
    pub(crate) declared: TokenStream,
    pub(crate) body: Group,
    /// From the semicolon on.
    pub(crate) after: TokenStream,
    ty: Type,
}

/// The statement in `tokens`, or in async blocks there: other attributes may already have wrapped
/// the method that `#[async_trait]` made. `None` also where there are two, of which one would run
/// without the limit.
pub(crate) fn find(tokens: &TokenStream) -> Option<Ret> {
    if let Some(ret) = ret(tokens) {
        return Some(ret);
    }
    let blocks = async_blocks::blocks(tokens.clone());
    let mut found = blocks.iter().enumerate().filter_map(|(number, block)| {
        let mut ret = find(&block.stream())?;
        ret.place.insert(0, number);
        Some(ret)
    });
    found.next().filter(|_| found.next().is_none())
}

/// The statement among `tokens`, the inside of a block.
fn ret(tokens: &TokenStream) -> Option<Ret> {
    let mut before = TokenStream::new();
    let mut statement = Vec::new();
    let mut trees = tokens.clone().into_iter();
    while let Some(tree) = trees.next() {
        let end = matches!(&tree, TokenTree::Punct(punct) if punct.as_char() == ';');
        let block =
            matches!(&tree, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
        if end && let Some((declared, body, ty)) = declaration(&statement) {
            let after = std::iter::once(tree).chain(trees).collect();
            return Some(Ret {
                place: Vec::new(),
                before,
                declared,
                body,
                after,
                ty,
            });
        }
        let is_let = matches!(statement.first(), Some(TokenTree::Ident(word)) if word == "let");
        statement.push(tree);
        if end || (block && !is_let) {
            before.extend(statement.drain(..));
        }
    }
    None
}

/// `let __ret: R =`, the block after it, and `R`, if the statement is of this form. Where a method
/// returns nothing, it is `let _: () =`.
fn declaration(statement: &[TokenTree]) -> Option<(TokenStream, Group, Type)> {
    let (last, declared) = statement.split_last()?;
    let TokenTree::Group(body) = last else {
        return None;
    };
    if body.delimiter() != Delimiter::Brace {
        return None;
    }
    let declared: TokenStream = declared.iter().cloned().collect();
    let read = |input: ParseStream<'_>| {
        input.parse::<Token![let]>()?;
        let name = input.call(Ident::parse_any)?;
        input.parse::<Token![:]>()?;
        let ty: Type = input.parse()?;
        input.parse::<Token![=]>()?;
        Ok((name, ty))
    };
    let (name, ty) = read.parse2(declared.clone()).ok()?;
    let is_ret = name == "__ret" || name == "_" && is_unit(&ty);
    is_ret.then(|| (declared, body.clone(), ty))
}

impl Ret {
    /// The names bound before the statement, added to those that the signature binds, `scope`.
    pub(crate) fn scope(&self, mut scope: Scope) -> Scope {
        // Arguments taken apart by a pattern are `__arg1` in the signature.
        scope.bindings.retain(|binding| {
            !binding
                .text()
                .strip_prefix("__arg")
                .is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        });
        for statement in async_block::statements(self.before.clone()).unwrap_or_default() {
            let Stmt::Local(local) = statement else {
                continue;
            };
            match &local.pat {
                Pat::Ident(name) if name.ident == "__self" => {
                    scope.receiver = Some(name.ident.clone());
                }
                // `let email = email;` keeps the entry that the signature has for `email`.
                Pat::Ident(name)
                    if scope.bindings.iter().any(|known| known.ident == name.ident) => {}
                pattern => scope.bind(
                    pattern,
                    local
                        .attrs
                        .iter()
                        .any(|attribute| attribute.path().is_ident("cfg")),
                ),
            }
        }
        scope
    }

    /// The output of the statement, the body of `signature`.
    pub(crate) fn output(&self, signature: &Signature) -> Output {
        Output::of_type(&self.ty, signature.ident.to_token_stream())
    }
}
