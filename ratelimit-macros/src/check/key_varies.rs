//! Whether an expression may differ between calls.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::ext::IdentExt as _;
use syn::parse::Parser as _;
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Expr, ExprCall, ExprMethodCall, ExprPath, LitStr, Macro, Token};

use crate::check::last_names;
use crate::check::scope::Scope;
use crate::check::standard_macros::is_standard;
use crate::literal::strings;

/// Whether `expr` may differ between calls: it names an argument, or calls something that may.
pub(crate) fn varies(expr: &Expr, scope: &Scope) -> bool {
    let mut varying = Varying { scope, varies: false };
    varying.visit_expr(expr);
    varying.varies
}

struct Varying<'a> {
    scope: &'a Scope,
    varies: bool,
}

/// Methods of the standard library that make the same of the same.
const CONSTANT_METHODS: [&str; 20] = [
    "as_bytes",
    "as_deref",
    "as_ref",
    "as_slice",
    "as_str",
    "clone",
    "concat",
    "into",
    "is_empty",
    "join",
    "len",
    "repeat",
    "to_ascii_lowercase",
    "to_ascii_uppercase",
    "to_lowercase",
    "to_owned",
    "to_string",
    "to_uppercase",
    "to_vec",
    "trim",
];

impl<'ast> Visit<'ast> for Varying<'_> {
    fn visit_expr_path(&mut self, path: &'ast ExprPath) {
        self.varies |= names(path.to_token_stream(), self.scope);
    }

    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        let constant = matches!(&*call.func, Expr::Path(function) if constructs(function));
        self.varies |= !constant;
        visit::visit_expr_call(self, call);
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        self.varies |= !CONSTANT_METHODS.iter().any(|name| call.method == name);
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, mac: &'ast Macro) {
        if mac.path.segments.last().is_some_and(|name| name.ident == "stringify") {
            return;
        }
        let known = is_standard(mac);
        let arguments = Punctuated::<Expr, Token![,]>::parse_terminated.parse2(mac.tokens.clone());
        let (true, Ok(arguments)) = (known, arguments) else {
            self.varies = true;
            return;
        };
        for argument in &arguments {
            self.visit_expr(argument);
        }
        // `format!("{email}")`
        let inline = |text: &LitStr| {
            let text = text.value().replace("{{", "");
            text.split('{').skip(1).any(|rest| {
                let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                self.scope.varies(&name)
            })
        };
        self.varies |= strings(mac.tokens.clone()).iter().any(inline);
    }
}

/// Whether any name among `tokens` stands for something that may differ between calls.
fn names(tokens: TokenStream, scope: &Scope) -> bool {
    tokens.into_iter().any(|tree| match tree {
        TokenTree::Ident(ident) => scope.varies(&ident.unraw().to_string()),
        TokenTree::Group(group) => names(group.stream(), scope),
        _ => false,
    })
}

/// Whether calling `function` only wraps what it is given: `String::from`, `Some`, `Id(…)`.
fn constructs(function: &ExprPath) -> bool {
    let (owner, last) = last_names::of(&function.path);
    let known = matches!(
        (owner.as_str(), last.as_str()),
        ("String" | "PathBuf" | "Vec" | "Arc" | "Rc" | "Box" | "From" | "Cow", "from" | "new" | "default")
            | ("Key", "of" | "global" | "new")
            | ("Default", "default")
            | ("hint", "black_box")
            | ("convert", "identity")
            | ("Uuid", "nil" | "max")
    );
    known || last.chars().next().is_some_and(char::is_uppercase)
}
