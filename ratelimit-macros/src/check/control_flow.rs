//! What an expression in the attribute must not do: wait, or leave the function.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::parse::Parser as _;
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Error, Expr, Item, Macro, Token};

use crate::check::standard_macros::is_standard;
use crate::diagnostics::Diagnostics;

/// Reports every `.await`, `return`, `?`, `break`, `continue` and `yield` of `expr`, the value of
/// argument `name`. Closures and async blocks are their own functions and may do as they like.
pub(crate) fn check(name: &str, expr: &Expr, diagnostics: &mut Diagnostics) {
    Scanner { name, diagnostics, loops: 0 }.visit_expr(expr);
}

struct Scanner<'a> {
    name: &'a str,
    diagnostics: &'a mut Diagnostics,
    /// How many loops of the expression itself are around this point.
    loops: usize,
}

impl Scanner<'_> {
    fn refuse(&mut self, tokens: impl ToTokens, what: &str, instead: &str) {
        let message = format!("{what} cannot be used in `{}`: {instead}", self.name);
        self.diagnostics.push(Error::new_spanned(tokens, message));
    }

    fn in_loop(&mut self, visit: impl FnOnce(&mut Self)) {
        self.loops += 1;
        visit(self);
        self.loops -= 1;
    }
}

const NO_WAIT: &str = "it is evaluated without waiting; pass the awaited value as an argument";
const NO_EXIT: &str = "the expression cannot leave the function; give it a value in every case";

impl<'ast> Visit<'ast> for Scanner<'_> {
    fn visit_expr(&mut self, expr: &'ast Expr) {
        match expr {
            Expr::Async(_) | Expr::Closure(_) | Expr::Const(_) => {}
            Expr::Await(wait) => {
                self.refuse(wait.await_token, "`.await`", NO_WAIT);
                self.visit_expr(&wait.base);
            }
            Expr::Try(attempt) => {
                self.refuse(attempt.question_token, "`?`", NO_EXIT);
                self.visit_expr(&attempt.expr);
            }
            Expr::Return(exit) => self.refuse(exit.return_token, "`return`", NO_EXIT),
            Expr::Yield(exit) => self.refuse(exit.yield_token, "`yield`", NO_EXIT),
            Expr::Break(exit) if self.loops == 0 && exit.label.is_none() => {
                self.refuse(exit.break_token, "`break`", NO_EXIT);
            }
            Expr::Continue(exit) if self.loops == 0 && exit.label.is_none() => {
                self.refuse(exit.continue_token, "`continue`", NO_EXIT);
            }
            Expr::Loop(_) | Expr::While(_) | Expr::ForLoop(_) => {
                self.in_loop(|scanner| visit::visit_expr(scanner, expr));
            }
            _ => visit::visit_expr(self, expr),
        }
    }

    fn visit_item(&mut self, _: &'ast Item) {}

    fn visit_macro(&mut self, mac: &'ast Macro) {
        // What reads as expressions is looked at as such; in anything else every word that could leave is refused.
        let arguments = Punctuated::<Expr, Token![,]>::parse_terminated.parse2(mac.tokens.clone());
        match arguments {
            Ok(arguments) => arguments.iter().for_each(|argument| self.visit_expr(argument)),
            Err(_) => self.tokens(mac.tokens.clone()),
        }
    }
}

impl Scanner<'_> {
    /// Reports every word among `tokens` that may wait or leave the function.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut after_dot = false;
        let mut after_value = false;
        for tree in tokens {
            match &tree {
                TokenTree::Ident(word) if after_dot && word == "await" => self.refuse(word, "`.await`", NO_WAIT),
                TokenTree::Ident(word) if EXITS.iter().any(|exit| word == exit) => {
                    self.refuse(word, &format!("`{word}`"), NO_EXIT);
                }
                TokenTree::Punct(punct) if after_value && punct.as_char() == '?' => {
                    self.refuse(punct, "`?`", NO_EXIT);
                }
                TokenTree::Group(group) => self.tokens(group.stream()),
                _ => {}
            }
            after_dot = matches!(&tree, TokenTree::Punct(punct) if punct.as_char() == '.');
            after_value = !matches!(&tree, TokenTree::Punct(_));
        }
    }
}

const EXITS: [&str; 4] = ["return", "break", "continue", "yield"];

/// Whether `expr` calls a macro that only the compiler can look into, outside of closures and async blocks. One of the
/// standard library does what is written in its arguments.
pub(crate) fn is_hidden(expr: &Expr) -> bool {
    struct Finder(bool);
    impl<'ast> Visit<'ast> for Finder {
        fn visit_expr(&mut self, expr: &'ast Expr) {
            if !matches!(expr, Expr::Async(_) | Expr::Closure(_) | Expr::Const(_)) {
                visit::visit_expr(self, expr);
            }
        }
        fn visit_item(&mut self, _: &'ast Item) {}
        fn visit_macro(&mut self, mac: &'ast Macro) {
            self.0 |= !is_standard(mac);
        }
    }
    let mut finder = Finder(false);
    finder.visit_expr(expr);
    finder.0
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn errors(text: &str) -> Vec<String> {
        let mut diagnostics = Diagnostics::default();
        check("key", &syn::parse_str(text).unwrap(), &mut diagnostics);
        diagnostics.messages()
    }

    #[test]
    fn refused() {
        for (text, part) in [
            ("f().await", "`.await` cannot be used in `key`"),
            ("(a, b(c?))", "`?`"),
            ("if a { return } else { 1 }", "`return`"),
            ("{ break; }", "`break`"),
            ("match x { A => continue, _ => 1 }", "`continue`"),
            ("format!(\"{}\", f(g.await))", "`.await`"),
            ("format!(\"{}\", f(g?))", "`?`"),
            ("vec![if a { return b } else { 1 }]", "`return`"),
            ("matches!(a?, B if c)", "`?`"),
            ("mine!(a => return b)", "`return`"),
            ("mine!(a; { b => break })", "`break`"),
            ("mine!(a => b.await)", "`.await`"),
        ] {
            let errors = errors(text);
            assert_eq!(errors.len(), 1, "{text}: {errors:?}");
            assert!(errors.iter().all(|e| e.contains(part)), "{text}: {errors:?}");
        }
        assert_eq!(errors("a.await + b?").len(), 2);
    }

    #[test]
    fn hidden() {
        for (text, hidden) in [
            ("mine!(a)", true),
            ("(a, x::mine!())", true),
            ("{ mine!(a); b }", true),
            ("a.map(|a| mine!(a))", false),
            ("format!(\"{a}\")", false),
            ("std::matches!(a, B)", false),
        ] {
            assert_eq!(is_hidden(&syn::parse_str(text).unwrap()), hidden, "{text}");
        }
    }

    #[test]
    fn allowed() {
        for text in [
            "x.map(|x| { return x })",
            "ready(async { f().await })",
            "loop { break 1; }",
            "{ fn g() -> u8 { return 1 } g() }",
            "<T as Trait<dyn A>>::f(await_time)",
            "format!(\"{x:?}\", x = a.map(|a| { return a }))",
            "vec![ready(async { f().await? })]",
            "mine!(T: ?Sized => a)",
        ] {
            assert!(errors(text).is_empty(), "{text}: {:?}", errors(text));
        }
    }
}
