//! A key that is an expression: it must not be the same for every call, nor hold a template as mere
//! text.

use syn::{Error, Expr, Ident, Stmt};

use crate::check::function::scope::Scope;
use crate::check::key::{text, varies};
use crate::diagnostics::Diagnostics;
use crate::literal::bare;
use crate::suggest::nearest;

/// Reports the reason why `expr` is the same key for all callers. The names are those by which
/// alone it may differ.
pub(crate) fn check(expr: &Expr, scope: &Scope, diagnostics: &mut Diagnostics) -> Vec<Ident> {
    let names = varies::names_alone(expr, scope);
    let texts = text::placeholders(expr, scope);
    if !texts.is_empty() {
        for (literal, placeholder, root) in texts {
            let names = scope.texts();
            let known = nearest(&root, names.iter().map(String::as_str));
            let meant = known.map_or_else(|| "the argument".to_owned(), |name| format!("`{name}`"));
            let message = format!(
                "`{placeholder}` is only text here, because the key is an expression: write \
                 {meant} itself, or make all of the key one template, as in \
                 `key = \"<email>:<ip>\"` (if the text is meant, make it a constant)"
            );
            diagnostics.push(Error::new(literal.span(), message));
        }
    } else if has_no_value(expr) {
        let message = "this key has no value, so it is the same for every call: end it with what \
            tells callers apart";
        diagnostics.error(expr, message);
    } else if names.as_ref().is_some_and(Vec::is_empty) {
        let message = "this key is the same for every call: write what tells callers apart, as in \
            `key = \"<email>\"`, or leave `key` out for one bucket for all callers";
        diagnostics.error(expr, message);
    }
    names.unwrap_or_default()
}

/// `true` if `expr` has an effect and no value, as `{ email.trim(); }`.
fn has_no_value(expr: &Expr) -> bool {
    let Expr::Block(block) = bare(expr) else {
        return false;
    };
    match block.block.stmts.last() {
        Some(Stmt::Expr(_, semicolon)) => semicolon.is_some(),
        Some(Stmt::Macro(last)) => last.semi_token.is_some(),
        Some(Stmt::Local(_) | Stmt::Item(_)) | None => true,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn errors(text: &str) -> Vec<String> {
        let signature = "fn f<T: Id, const N: u8>(&self, email: &str, ip: IpAddr, r#type: u8)";
        let scope = Scope::of(&syn::parse_str(signature).unwrap());
        let mut diagnostics = Diagnostics::default();
        check(&syn::parse_str(text).unwrap(), &scope, &mut diagnostics);
        diagnostics.messages()
    }

    #[test]
    fn a_constant_key_is_an_error() {
        for text in [
            "keys::EMAIL",
            "None",
            "c\"<email>\"",
            "'c'",
            "()",
            "[1, 2]",
            "&1",
            "concat!(\"a\", 1)",
            "concat!(\"{EMAIL}\")",
            "stringify!(email)",
            "format!(\"{}\", keys::EMAIL)",
            "format!(\"{{email}}\")",
            "\"a\".to_string()",
            "Id(3)",
            "Key::of(&42)",
            "if true { 1 } else { 2 }",
            "Id { tenant: 1 }",
            "1 + 2",
            "1 as u8",
            "dbg!(\"email\")",
        ] {
            let errors = errors(text);
            assert!(
                errors.iter().any(|e| e.contains("the same for every call")),
                "{text}: {errors:?}"
            );
        }
    }

    #[test]
    fn a_key_without_a_value_is_an_error() {
        for text in [
            "{ email.trim(); }",
            "{ format!(\"{email}\"); }",
            "{ log(email); let a = 1; }",
            "{}",
        ] {
            assert!(
                errors(text).iter().any(|e| e.contains("has no value")),
                "{text}"
            );
        }
    }

    #[test]
    fn a_template_inside_an_expression_is_an_error() {
        for text in [
            "&\"<email>\"",
            "[\"a:<self.id>\", email]",
            "\"<email>\".to_owned()",
            "concat!(\"{email}\")",
            "hash(\"<email>\", ip)",
            "dbg!(\"<email>\")",
        ] {
            assert!(
                errors(text).iter().any(|e| e.contains("is only text here")),
                "{text}"
            );
        }
    }

    #[test]
    fn a_key_that_differs_between_calls_is_accepted() {
        for text in [
            "email",
            "&*email",
            "self",
            "self.id",
            "N",
            "T::ID",
            "OF_THE_IMPL",
            "OF_THE_IMPL.to_string()",
            "format!(\"{}\", OF_THE_IMPL)",
            "U::ID",
            "<U as Id>::ID",
            "Of::<U>::ID",
            "ATOMIC.load(Relaxed)",
            "format!(\"{self}\")",
            "*LAZY",
            "LAZY.field",
            "format!(\"{OF_THE_IMPL}\")",
            "{ let a = 1; a }",
            "THREAD_LOCAL.get()",
            "size_of::<T>()",
            "tenant()",
            "Key::of(email)",
            "format!(\"{email}\")",
            "format!(\"<{email}>\")",
            "format!(\"{}\", email)",
            "format!(\"<b>{}\", email)",
            "format!(\"{a}\", a = ip)",
            "my_key!(\"<email>\")",
            "email.replace(\"<b>\", \"\")",
            "if email.is_empty() { 1 } else { 2 }",
            "match ip { V4(_) => 4, _ => 6 }",
            "{ let a = email.len(); a }",
            "matches!(ip, V4(_) if true)",
            "dbg!(email)",
            "{ log(email); ip }",
            "loop { break email; }",
        ] {
            assert!(errors(text).is_empty(), "{text}: {:?}", errors(text));
        }
    }
}
