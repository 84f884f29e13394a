//! `limiter`: it must be there before the call, and after it.

use syn::{Expr, Stmt};

use crate::check::last_names;
use crate::diagnostics::Diagnostics;
use crate::literal::as_literal;

/// Reports a literal, and a limiter that the expression itself makes.
pub(crate) fn check(value: &Expr, diagnostics: &mut Diagnostics) {
    if as_literal(value).is_some() {
        let message = "`limiter` is a `RateLimiter`: write where it is, as in `limiter = self.limiter`";
        diagnostics.error(value, message);
    }
    if is_new(value) {
        let message = "this makes a new limiter for every call, and that has counted nothing yet: make one, in a field or a \
                       `static … : LazyLock<RateLimiter>`, and write where it is, as in `limiter = self.limiter`";
        diagnostics.error(value, message);
    }
}

/// Whether the value of `expr` is a limiter that it makes: `RateLimiter::memory()`, whatever is done with that on the way.
fn is_new(expr: &Expr) -> bool {
    match expr {
        Expr::Reference(reference) => is_new(&reference.expr),
        Expr::Paren(paren) => is_new(&paren.expr),
        Expr::Group(group) => is_new(&group.expr),
        Expr::Unary(unary) => is_new(&unary.expr),
        Expr::MethodCall(call) => is_new(&call.receiver),
        Expr::Call(call) => last_names::of_function(&call.func).is_some_and(|(owner, last)| {
            let pointer = matches!(owner.as_str(), "Arc" | "Box" | "Rc");
            owner == "RateLimiter" && last != "current" || pointer && call.args.iter().any(is_new)
        }),
        Expr::Block(block) => match block.block.stmts.last() {
            Some(Stmt::Expr(last, None)) => is_new(last),
            _ => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn errors(text: &str) -> Vec<String> {
        let mut diagnostics = Diagnostics::default();
        check(&syn::parse_str(text).unwrap(), &mut diagnostics);
        diagnostics.messages()
    }

    #[test]
    fn made_anew() {
        for text in [
            "RateLimiter::memory()",
            "&ratelimit_runtime::RateLimiter::memory()",
            "Arc::new(RateLimiter::memory())",
            "RateLimiter::redis(URL).unwrap()",
            "{ let url = url(); RateLimiter::redis(url).expect(\"a url\") }",
            "(RateLimiter::builder().prefix(\"a\").build().unwrap())",
            "RateLimiter::with_store(MemoryStore::new())",
            "RateLimiter::from_env().unwrap().clone()",
        ] {
            let errors = errors(text);
            assert_eq!(errors.len(), 1, "{text}: {errors:?}");
            assert!(errors.iter().all(|e| e.contains("a new limiter for every call")), "{text}: {errors:?}");
        }
    }

    #[test]
    fn there_already() {
        for text in [
            "self.limiter",
            "&state.limiter",
            "LIMITER",
            "limiters.of(tenant)",
            "limiter_of(tenant)",
            "RateLimiter::current()",
            "CELL.get_or_init(RateLimiter::memory)",
            "CELL.get_or_init(|| RateLimiter::memory())",
            "self.limiters.entry(tenant).or_insert(RateLimiter::memory())",
            "{ static ONE: LazyLock<RateLimiter> = LazyLock::new(RateLimiter::memory); &ONE }",
        ] {
            assert!(errors(text).is_empty(), "{text}: {:?}", errors(text));
        }
    }
}
