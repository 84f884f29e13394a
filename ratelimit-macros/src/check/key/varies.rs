//! Tells whether an expression may differ between calls. A key that cannot is an error, because all
//! callers would share a bucket. An expression that does not show it passes.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::ext::IdentExt as _;
use syn::visit::{self, Visit};
use syn::{Expr, ExprCall, ExprMethodCall, ExprPath, LitStr, Macro, PathSegment};

use crate::check::function::names;
use crate::check::function::scope::Scope;
use crate::literal::{bare, strings};

/// `true` if `expr` may differ between calls: it names an argument, or a name that may be a
/// parameter of the `impl` around the function, or calls a function that may.
pub(crate) fn varies(expr: &Expr, scope: &Scope) -> bool {
    let mut varying = Varying {
        scope,
        varies: false,
    };
    varying.visit_expr(expr);
    varying.varies
}

struct Varying<'a> {
    scope: &'a Scope,
    varies: bool,
}

impl<'ast> Visit<'ast> for Varying<'_> {
    fn visit_expr_path(&mut self, path: &'ast ExprPath) {
        self.varies |= names(path.to_token_stream(), self.scope) || !is_item(path);
    }

    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        let constant = matches!(&*call.func, Expr::Path(function) if constructs(function));
        self.varies |= !constant;
        for argument in &call.args {
            self.visit_expr(argument);
        }
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        // A static of some type may give something else each time; a literal does not.
        self.varies |= matches!(bare(&call.receiver), Expr::Path(_));
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, mac: &'ast Macro) {
        let Some(arguments) = names::standard_arguments(mac) else {
            self.varies = true;
            return;
        };
        for argument in &arguments {
            self.varies |= matches!(bare(argument), Expr::Path(_));
            self.visit_expr(argument);
        }
        // `format!("{email}")`
        let inline = |text: &LitStr| {
            let text = text.value().replace("{{", "");
            text.split('{')
                .skip(1)
                .any(|rest| rest.starts_with(|c: char| c.is_alphabetic() || c == '_'))
        };
        self.varies |= strings(mac.tokens.clone()).iter().any(inline);
    }
}

/// `true` if `path` is one item for every call: `crate::keys::EMAIL`. A name alone, or one after a
/// type, may be a parameter of an `impl`, or depend on one.
fn is_item(path: &ExprPath) -> bool {
    let ExprPath {
        qself: None, path, ..
    } = path
    else {
        return false;
    };
    let is_module = |segment: &PathSegment| {
        segment.arguments.is_none()
            && segment
                .ident
                .unraw()
                .to_string()
                .starts_with(|c: char| c.is_lowercase())
    };
    let modules = path.segments.len().saturating_sub(1);
    path.is_ident("None")
        || modules > 0
            && path.segments.iter().take(modules).all(is_module)
            && path
                .segments
                .last()
                .is_some_and(|last| last.arguments.is_none())
}

/// `true` if any name among `tokens` stands for something that may differ between calls.
fn names(tokens: TokenStream, scope: &Scope) -> bool {
    tokens.into_iter().any(|tree| match tree {
        TokenTree::Ident(ident) => scope.varies(&ident.unraw().to_string()),
        TokenTree::Group(group) => names(group.stream(), scope),
        _ => false,
    })
}

/// `true` if `function` only wraps its arguments: `String::from`, `Some`, `Id(…)`.
fn constructs(function: &ExprPath) -> bool {
    let (owner, last) = names::last_two(&function.path);
    let known = matches!(
        (owner.as_str(), last.as_str()),
        ("String" | "Vec" | "Arc" | "Box" | "Cow", "from" | "new") | ("Key", "of" | "global")
    );
    known || last.chars().next().is_some_and(char::is_uppercase)
}
