//! Ways out of a function, and waits, in an expression of the user's. Closures and async blocks are
//! functions of their own.

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::parse::Parser as _;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{Expr, Item, Macro, Stmt, Token};

use crate::check::function::names::is_standard;

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
    /// `return`, `break`, `continue` or `yield`
    Leave(&'static str),
    /// A macro that only the compiler can expand. A macro of the standard library is read by its
    /// arguments, and macros that make spans are known to do nothing else.
    Macro,
}

pub(crate) fn of_expr(expr: &Expr) -> Vec<Exit> {
    let mut finder = Finder {
        exits: Vec::new(),
        loops: 0,
    };
    finder.visit_expr(expr);
    finder.exits
}

/// Whether `expr` may leave the function.
pub(crate) fn leaves(expr: &Expr) -> bool {
    of_expr(expr).iter().any(|exit| exit.kind != Kind::Wait)
}

/// Whether `statement` may leave the function.
pub(crate) fn statement_leaves(statement: &Stmt) -> bool {
    let mut finder = Finder {
        exits: Vec::new(),
        loops: 0,
    };
    finder.visit_stmt(statement);
    finder.exits.iter().any(|exit| exit.kind != Kind::Wait)
}

struct Finder {
    exits: Vec<Exit>,
    /// How many loops of the expression itself are around this point.
    loops: usize,
}

impl Finder {
    fn found(&mut self, kind: Kind, at: Span) {
        self.exits.push(Exit { kind, at });
    }

    /// Finds every word among `tokens` that may wait or leave the function. A `?` before a value is
    /// `tracing`'s.
    fn tokens(&mut self, tokens: TokenStream) {
        let (mut after_dot, mut after_value) = (false, false);
        for tree in tokens {
            match &tree {
                TokenTree::Ident(word) if after_dot && word == "await" => {
                    self.found(Kind::Wait, word.span());
                }
                TokenTree::Ident(word) => {
                    let exit = ["return", "break", "continue", "yield"]
                        .into_iter()
                        .find(|exit| word == exit);
                    self.exits.extend(exit.map(|exit| Exit {
                        kind: Kind::Leave(exit),
                        at: word.span(),
                    }));
                }
                TokenTree::Punct(punct) if after_value && punct.as_char() == '?' => {
                    self.found(Kind::Try, punct.span());
                }
                TokenTree::Group(group) => self.tokens(group.stream()),
                _ => {}
            }
            after_dot = matches!(&tree, TokenTree::Punct(punct) if punct.as_char() == '.');
            after_value = !matches!(&tree, TokenTree::Punct(_));
        }
    }
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_expr(&mut self, expr: &'ast Expr) {
        match expr {
            Expr::Async(_) | Expr::Closure(_) | Expr::Const(_) => return,
            Expr::Await(wait) => self.found(Kind::Wait, wait.await_token.span()),
            Expr::Try(attempt) => self.found(Kind::Try, attempt.question_token.span()),
            Expr::Return(exit) => {
                return self.found(Kind::Leave("return"), exit.return_token.span());
            }
            Expr::Yield(exit) => return self.found(Kind::Leave("yield"), exit.yield_token.span()),
            Expr::Break(exit) if self.loops == 0 && exit.label.is_none() => {
                return self.found(Kind::Leave("break"), exit.break_token.span());
            }
            Expr::Continue(exit) if self.loops == 0 && exit.label.is_none() => {
                return self.found(Kind::Leave("continue"), exit.continue_token.span());
            }
            _ => {}
        }
        let is_loop = matches!(expr, Expr::Loop(_) | Expr::While(_) | Expr::ForLoop(_));
        self.loops += usize::from(is_loop);
        visit::visit_expr(self, expr);
        self.loops -= usize::from(is_loop);
    }

    fn visit_item(&mut self, _: &'ast Item) {}

    fn visit_macro(&mut self, mac: &'ast Macro) {
        let makes_a_span = mac
            .path
            .segments
            .last()
            .is_some_and(|name| name.ident.to_string().ends_with("span"));
        if !is_standard(mac) && !makes_a_span {
            self.found(Kind::Macro, mac.path.span());
        }
        // Tokens that parse as expressions are visited as such; in all others every word counts.
        match Punctuated::<Expr, Token![,]>::parse_terminated.parse2(mac.tokens.clone()) {
            Ok(arguments) => arguments
                .iter()
                .for_each(|argument| self.visit_expr(argument)),
            Err(_) => self.tokens(mac.tokens.clone()),
        }
    }
}
