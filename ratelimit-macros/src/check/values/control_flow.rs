//! What an expression in the attribute must not do: wait, or leave the function.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::parse::Parser as _;
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Error, Expr, Item, Macro, Token};

use crate::check::function::standard_macros::is_standard;
use crate::diagnostics::Diagnostics;

/// Reports every `.await`, `return`, `break`, `continue` and `yield` of `expr`, the value of
/// argument `name`, and every `?` that cannot leave the function there. Closures and async blocks
/// are their own functions and may do as they like.
pub(crate) fn check(name: &str, expr: &Expr, diagnostics: &mut Diagnostics) {
    // A macro that may hide an exit is kept in a closure, which a `?` beside it could not leave.
    let attempt = match (BEFORE_THE_LIMIT.contains(&name), is_hidden(expr)) {
        (true, false) => Attempt::Leaves,
        (true, true) => Attempt::BesideMacro,
        (false, _) => Attempt::Refused,
    };
    Scanner { name, diagnostics, attempt, loops: 0 }.visit_expr(expr);
}

/// The arguments that are evaluated before the limit is asked. An error that leaves the function
/// there has charged nothing, and the body has not run.
const BEFORE_THE_LIMIT: [&str; 7] = ["when", "limiter", "max", "policy", "cost", "shadow", "key"];

/// What becomes of a `?`.
#[derive(Clone, Copy, PartialEq)]
enum Attempt {
    Leaves,
    BesideMacro,
    Refused,
}

struct Scanner<'a> {
    name: &'a str,
    diagnostics: &'a mut Diagnostics,
    attempt: Attempt,
    /// How many loops of the expression itself are around this point.
    loops: usize,
}

impl Scanner<'_> {
    fn refuse(&mut self, tokens: impl ToTokens, what: &str, instead: &str) {
        let message = format!("{what} cannot be used in `{}`: {instead}", self.name);
        self.diagnostics.push(Error::new_spanned(tokens, message));
    }

    fn attempt(&mut self, tokens: impl ToTokens) {
        match self.attempt {
            Attempt::Leaves => {}
            Attempt::BesideMacro => self.refuse(tokens, "`?`", BESIDE_MACRO),
            Attempt::Refused => self.refuse(tokens, "`?`", NO_EXIT),
        }
    }

    fn exit(&mut self, tokens: impl ToTokens, what: &str) {
        let instead = if self.attempt == Attempt::Refused { NO_EXIT } else { ERROR_ONLY };
        self.refuse(tokens, what, instead);
    }

    fn in_loop(&mut self, visit: impl FnOnce(&mut Self)) {
        self.loops += 1;
        visit(self);
        self.loops -= 1;
    }
}

const NO_WAIT: &str = "it is evaluated without waiting; pass the awaited value as an argument";
const NO_EXIT: &str = "the expression cannot leave the function; give it a value in every case";
const ERROR_ONLY: &str = "only an error may leave the function here, as in `tenant(request)?`";
const BESIDE_MACRO: &str = "a macro beside it may hide another way out; call that in a function, and the function here";

impl<'ast> Visit<'ast> for Scanner<'_> {
    fn visit_expr(&mut self, expr: &'ast Expr) {
        match expr {
            Expr::Async(_) | Expr::Closure(_) | Expr::Const(_) => {}
            Expr::Await(wait) => {
                self.refuse(wait.await_token, "`.await`", NO_WAIT);
                self.visit_expr(&wait.base);
            }
            Expr::Try(attempt) => {
                self.attempt(attempt.question_token);
                self.visit_expr(&attempt.expr);
            }
            Expr::Return(exit) => self.exit(exit.return_token, "`return`"),
            Expr::Yield(exit) => self.exit(exit.yield_token, "`yield`"),
            Expr::Break(exit) if self.loops == 0 && exit.label.is_none() => {
                self.exit(exit.break_token, "`break`");
            }
            Expr::Continue(exit) if self.loops == 0 && exit.label.is_none() => {
                self.exit(exit.continue_token, "`continue`");
            }
            Expr::Loop(_) | Expr::While(_) | Expr::ForLoop(_) => {
                self.in_loop(|scanner| visit::visit_expr(scanner, expr));
            }
            _ => visit::visit_expr(self, expr),
        }
    }

    fn visit_item(&mut self, _: &'ast Item) {}

    fn visit_macro(&mut self, mac: &'ast Macro) {
        // What reads as expressions is looked at as such; in anything else every word that could
        // leave is refused.
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
                    self.exit(word, &format!("`{word}`"));
                }
                TokenTree::Punct(punct) if after_value && punct.as_char() == '?' => {
                    self.attempt(punct);
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

/// Whether `expr` calls a macro that only the compiler can look into, outside of closures and async
/// blocks. One of the standard library does what is written in its arguments.
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
        errors_in("key", text)
    }

    fn errors_in(name: &str, text: &str) -> Vec<String> {
        let mut diagnostics = Diagnostics::default();
        check(name, &syn::parse_str(text).unwrap(), &mut diagnostics);
        diagnostics.messages()
    }

    #[test]
    fn an_error_may_leave_before_the_limit_is_asked() {
        for text in ["a?", "(a, b(c?))", "format!(\"{}\", f(g?))", "matches!(a?, B if c)", "{ let a = b?; a }"] {
            for name in BEFORE_THE_LIMIT {
                assert!(errors_in(name, text).is_empty(), "{name} = {text}");
            }
            for name in ["count", "actual_cost", "on_refused"] {
                assert!(
                    errors_in(name, text).iter().all(|e| e.contains("cannot leave the function")),
                    "{name} = {text}"
                );
                assert_eq!(errors_in(name, text).len(), 1, "{name} = {text}");
            }
        }
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
