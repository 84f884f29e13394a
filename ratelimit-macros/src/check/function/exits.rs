//! Ways out of a function: `return` and `?`, and macros in which one may hide.

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Expr, Item, Macro, Stmt};

use crate::check::function::standard_macros::is_standard;

/// Whether `statement` has one.
pub(crate) fn any_in_statement(statement: &Stmt) -> bool {
    let mut finder = Finder(false);
    finder.visit_stmt(statement);
    finder.0
}

/// Whether `argument`, one of a method of a future, has one. The macros that make spans are known
/// to have none.
pub(crate) fn any_in_argument(argument: &Expr) -> bool {
    let mut finder = Finder(false);
    finder.visit_expr(argument);
    finder.0
}

struct Finder(bool);

impl<'ast> Visit<'ast> for Finder {
    fn visit_expr(&mut self, expr: &'ast Expr) {
        match expr {
            Expr::Async(_) | Expr::Closure(_) | Expr::Const(_) => {}
            Expr::Return(_) | Expr::Try(_) | Expr::Break(_) | Expr::Continue(_) | Expr::Yield(_) => self.0 = true,
            _ => visit::visit_expr(self, expr),
        }
    }

    fn visit_item(&mut self, _: &'ast Item) {}

    fn visit_macro(&mut self, mac: &'ast Macro) {
        const SPANS: [&str; 6] = ["span", "error_span", "warn_span", "info_span", "debug_span", "trace_span"];
        let makes_a_span = mac.path.segments.last().is_some_and(|name| SPANS.iter().any(|span| name.ident == span));
        self.0 |= !(makes_a_span || is_standard(mac)) || any_in_tokens(mac.tokens.clone());
    }
}

/// Whether a word among `tokens` is a way out. A `?` before a value is `tracing`'s.
fn any_in_tokens(tokens: TokenStream) -> bool {
    let mut after_value = false;
    tokens.into_iter().any(|tree| {
        let found = match &tree {
            TokenTree::Ident(word) => word == "return" || word == "break" || word == "continue" || word == "yield",
            TokenTree::Punct(punct) => after_value && punct.as_char() == '?',
            TokenTree::Group(group) => any_in_tokens(group.stream()),
            TokenTree::Literal(_) => false,
        };
        after_value = !matches!(&tree, TokenTree::Punct(_));
        found
    })
}
