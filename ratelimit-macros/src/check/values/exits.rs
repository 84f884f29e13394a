//! Ways out of a function, and waits, in an expression of the user's. Closures and async blocks are
//! functions of their own. The compiler itself refuses a `break` that has no loop.

use proc_macro2::Span;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{Expr, Item, Macro};

use crate::check::function::names::standard_arguments;

/// An effect of an expression besides its value, and the place.
pub(crate) struct Exit {
    pub(crate) kind: Kind,
    pub(crate) at: Span,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    /// `.await`
    Wait,
    /// `?`
    Try,
    Return,
    /// A macro that only the compiler can expand. A macro of the standard library is read by its
    /// arguments.
    Macro,
}

pub(crate) fn of_expr(expr: &Expr) -> Vec<Exit> {
    let mut finder = Finder(Vec::new());
    finder.visit_expr(expr);
    finder.0
}

struct Finder(Vec<Exit>);

impl Finder {
    fn found(&mut self, kind: Kind, at: Span) {
        self.0.push(Exit { kind, at });
    }
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_expr(&mut self, expr: &'ast Expr) {
        match expr {
            Expr::Async(_) | Expr::Closure(_) | Expr::Const(_) => return,
            Expr::Await(wait) => self.found(Kind::Wait, wait.await_token.span()),
            Expr::Try(attempt) => self.found(Kind::Try, attempt.question_token.span()),
            Expr::Return(exit) => return self.found(Kind::Return, exit.return_token.span()),
            _ => {}
        }
        visit::visit_expr(self, expr);
    }

    fn visit_item(&mut self, _: &'ast Item) {}

    fn visit_macro(&mut self, mac: &'ast Macro) {
        match standard_arguments(mac) {
            Some(arguments) => arguments
                .iter()
                .for_each(|argument| self.visit_expr(argument)),
            None => self.found(Kind::Macro, mac.path.span()),
        }
    }
}
