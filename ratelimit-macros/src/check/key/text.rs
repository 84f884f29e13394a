//! Finds texts such as `"<email>"` in a key that is an expression, as in `key = (id, "<email>")`.
//!
//! Only a key that is one literal is a template. In an expression the text would stay as it is, and
//! callers with different emails would share a key.

use syn::visit::{self, Visit};
use syn::{Expr, ExprCall, ExprLit, ExprMethodCall, Lit, LitStr, Macro};

use crate::check::function::names::is_standard;
use crate::check::function::scope::Scope;
use crate::diagnostics::Diagnostics;
use crate::literal::strings;
use crate::parse::placeholder::Placeholder;
use crate::parse::template::Template;

/// A text, the placeholder that it spells, and the name in the placeholder.
pub(crate) type SpelledPlaceholder = (LitStr, String, String);

/// The texts in `expr` that spell placeholders. Among the arguments of a call a text may be meant
/// as it is, unless it spells the name of an argument.
pub(crate) fn placeholders(expr: &Expr, scope: &Scope) -> Vec<SpelledPlaceholder> {
    let mut texts = Texts {
        scope,
        in_call: false,
        found: Vec::new(),
    };
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
        let template = Template::parse(literal, &mut Diagnostics::default());
        let chars = template.literal.chars();
        let wanted = |root: &str| any_name || self.scope.varies(root) && root != "Self";
        let spelled = template
            .placeholders()
            .find_map(|Placeholder { root, whole, .. }| {
                let text = chars.get(whole.clone())?;
                let found = brackets.contains(text.first()?) && wanted(root);
                found.then(|| (literal.clone(), text.iter().collect(), root.clone()))
            });
        self.found.extend(spelled);
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
        self.in_call(|texts| {
            call.args
                .iter()
                .for_each(|argument| texts.visit_expr(argument));
        });
    }

    fn visit_macro(&mut self, mac: &'ast Macro) {
        // Other macros have a grammar of their own.
        if !is_standard(mac) {
            return;
        }
        // In a format string, braces hold the name of the value.
        let brackets: &[char] = if mac.path.is_ident("concat") {
            &['<', '{']
        } else {
            &['<']
        };
        for literal in strings(mac.tokens.clone()) {
            self.look(&literal, brackets, false);
        }
    }
}
