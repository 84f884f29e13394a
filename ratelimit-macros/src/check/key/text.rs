//! Placeholders in the texts of a key that is an expression, where they stand for nothing.

use syn::visit::{self, Visit};
use syn::{Expr, ExprCall, ExprLit, ExprMethodCall, Lit, LitStr, Macro};

use crate::check::function::scope::Scope;
use crate::check::function::standard_macros::is_standard;
use crate::literal::strings;
use crate::parse::placeholder;

/// A text, the placeholder that it spells, and the name in that.
pub(crate) type SpelledPlaceholder = (LitStr, String, String);

/// The texts in `expr` that spell placeholders. Among the arguments of a call a text may be meant
/// as it is, unless it spells the name of an argument.
pub(crate) fn placeholders(expr: &Expr, scope: &Scope) -> Vec<SpelledPlaceholder> {
    let mut texts = Texts { scope, in_call: false, found: Vec::new() };
    texts.visit_expr(expr);
    texts.found
}

struct Texts<'a> {
    scope: &'a Scope,
    in_call: bool,
    found: Vec<SpelledPlaceholder>,
}

impl Texts<'_> {
    fn look(&mut self, literal: &LitStr, brackets: &[char], any_name: bool) {
        let found = spelled(&literal.value(), brackets).into_iter();
        let wanted = |root: &str| any_name || self.scope.varies(root) && root != "Self";
        let first = found.into_iter().find(|(_, root)| wanted(root));
        self.found.extend(first.map(|(placeholder, root)| (literal.clone(), placeholder, root)));
    }

    fn in_call(&mut self, visit: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.in_call, true);
        visit(self);
        self.in_call = before;
    }
}

impl<'ast> Visit<'ast> for Texts<'_> {
    fn visit_expr_lit(&mut self, literal: &'ast ExprLit) {
        if let Lit::Str(text) = &literal.lit {
            self.look(text, &['<', '{'], !self.in_call);
        }
    }

    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        self.in_call(|texts| visit::visit_expr_call(texts, call));
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        self.visit_expr(&call.receiver);
        self.in_call(|texts| call.args.iter().for_each(|argument| texts.visit_expr(argument)));
    }

    fn visit_macro(&mut self, mac: &'ast Macro) {
        // Others have a grammar of their own.
        if !is_standard(mac) {
            return;
        }
        // In braces, a text that is formatted names what is put there.
        let brackets: &[char] = if mac.path.is_ident("concat") { &['<', '{'] } else { &['<'] };
        for literal in strings(mac.tokens.clone()) {
            self.look(&literal, brackets, false);
        }
    }
}

/// The placeholders in `text` with one of these brackets, each with its name.
fn spelled(text: &str, brackets: &[char]) -> Vec<(String, String)> {
    let chars: Vec<char> = text.chars().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(open) = chars.get(at).copied() {
        at += 1;
        if !matches!(open, '<' | '{') {
            continue;
        }
        if chars.get(at) == Some(&open) {
            at += 1;
            continue;
        }
        let close = if open == '<' { '>' } else { '}' };
        let rest = chars.get(at..).unwrap_or_default();
        let Some(length) = rest.iter().position(|c| matches!(c, '<' | '>' | '{' | '}')) else { continue };
        if rest.get(length) == Some(&close)
            && brackets.contains(&open)
            && let Ok(placeholder) = placeholder::read(&chars, at..at + length)
        {
            let inside: String = rest.get(..length).unwrap_or_default().iter().collect();
            found.push((format!("{open}{inside}{close}"), placeholder.root));
        }
    }
    found
}
