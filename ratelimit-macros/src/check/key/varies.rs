//! Tells whether an expression may differ between calls. A key that cannot is an error, because all
//! callers would share a bucket. An expression that does not show it passes.

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::ext::IdentExt as _;
use syn::parse::Parser as _;
use syn::visit::{self, Visit};
use syn::{Expr, ExprCall, ExprPath, Macro, PatIdent, PathSegment};

use crate::check::function::names;
use crate::check::function::scope::Scope;
use crate::literal::{bare, strings};

/// The names by which `expr` may differ between calls, if nothing else makes it: each may be a
/// constant, or a const parameter of the `impl` around the function. `None` if `expr` has an
/// argument in it, or something else that may differ.
pub(crate) fn names_alone(expr: &Expr, scope: &Scope) -> Option<Vec<Ident>> {
    let mut varying = Varying {
        scope,
        varies: false,
        names: Vec::new(),
    };
    varying.visit_expr(expr);
    (!varying.varies).then_some(varying.names)
}

struct Varying<'a> {
    scope: &'a Scope,
    varies: bool,
    names: Vec<Ident>,
}

impl Varying<'_> {
    fn name(&mut self, name: &Ident) {
        self.varies |= self.scope.varies(&name.unraw().to_string());
        self.names.push(name.clone());
    }
}

impl<'ast> Visit<'ast> for Varying<'_> {
    fn visit_expr(&mut self, expr: &'ast Expr) {
        // A static of some type may give something else each time; a literal does not.
        let read = match expr {
            Expr::MethodCall(call) => Some(&call.receiver),
            Expr::Field(field) => Some(&field.base),
            Expr::Index(index) => Some(&index.expr),
            Expr::Unary(unary) => Some(&unary.expr),
            // `format!("{a}", a = 1)`
            Expr::Assign(named) => Some(&named.left),
            _ => None,
        };
        self.varies |= read.is_some_and(|read| matches!(bare(read), Expr::Path(_)));
        visit::visit_expr(self, expr);
    }

    fn visit_expr_path(&mut self, path: &'ast ExprPath) {
        match path.path.get_ident() {
            Some(name) if name == "None" => {}
            Some(name) => self.name(name),
            None => self.varies |= names(path.to_token_stream(), self.scope) || !is_item(path),
        }
    }

    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        let constant = matches!(&*call.func, Expr::Path(function) if constructs(function));
        self.varies |= !constant;
        for argument in &call.args {
            self.visit_expr(argument);
        }
    }

    fn visit_pat_ident(&mut self, _: &'ast PatIdent) {
        self.varies = true;
    }

    fn visit_macro(&mut self, mac: &'ast Macro) {
        if mac.path.is_ident("stringify") || mac.path.is_ident("concat") {
            return;
        }
        let Some(arguments) = names::standard_arguments(mac) else {
            self.varies = true;
            return;
        };
        for argument in &arguments {
            self.visit_expr(argument);
        }
        // `format!("{email}")`
        for text in strings(mac.tokens.clone()) {
            for inside in text.value().replace("{{", "").split('{').skip(1) {
                let name = inside.split([':', '}']).next().unwrap_or_default();
                if let Ok(name) = Ident::parse_any.parse_str(name) {
                    self.name(&Ident::new(&name.to_string(), text.span()));
                }
            }
        }
    }
}

/// `true` if a path of several segments is one item for every call: `crate::keys::EMAIL`. One after
/// a type may depend on a parameter of an `impl`.
fn is_item(ExprPath { qself, path, .. }: &ExprPath) -> bool {
    let is_module = |segment: &PathSegment| {
        let name = segment.ident.unraw().to_string();
        name.starts_with(char::is_lowercase)
    };
    let segments = path.segments.iter().rev();
    qself.is_none()
        && segments.clone().all(|segment| segment.arguments.is_none())
        && segments.skip(1).all(is_module)
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
