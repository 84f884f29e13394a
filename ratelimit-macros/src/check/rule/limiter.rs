//! `limiter`: a limiter that outlives the call, because one made for it has counted nothing.

use syn::{Block, Expr, Stmt};

use crate::check::function::names;
use crate::diagnostics::Diagnostics;

/// Reports a limiter that the expression itself makes.
pub(crate) fn check(value: &Expr, diagnostics: &mut Diagnostics) {
    if is_new(value) {
        let message = "this makes a new limiter for every call, and that has counted nothing yet: \
            make one, in a field or a `static … : LazyLock<RateLimiter>`, and write where it is, \
            as in `limiter = self.limiter`";
        diagnostics.error(value, message);
    }
}

/// `true` if the value of `expr` may be a limiter that it makes: `RateLimiter::memory()`, with any
/// methods called on it.
fn is_new(expr: &Expr) -> bool {
    match expr {
        Expr::Reference(reference) => is_new(&reference.expr),
        Expr::Paren(paren) => is_new(&paren.expr),
        Expr::Group(group) => is_new(&group.expr),
        Expr::Unary(unary) => is_new(&unary.expr),
        Expr::Try(question) => is_new(&question.expr),
        Expr::MethodCall(call) => {
            let gives_argument = GIVES_ARGUMENT.iter().any(|name| call.method == name);
            let shared_store = call.method == "store" && !call.args.iter().any(makes_store);
            !shared_store && is_new(&call.receiver) || gives_argument && call.args.iter().any(makes)
        }
        Expr::Call(call) => match names::of_function(&call.func) {
            Some((owner, last)) => match (owner.as_str(), last.as_str()) {
                ("RateLimiter", "with_store") => call.args.iter().any(makes_store),
                ("RateLimiter", last) => CONSTRUCTORS.contains(&last),
                ("LazyLock" | "LazyCell" | "Lazy" | "OnceLock" | "OnceCell", "new") => true,
                ("Arc" | "Box" | "Rc", _) | (_, "Some" | "Ok") => call.args.iter().any(is_new),
                _ => false,
            },
            None => false,
        },
        Expr::Block(block) => ends_new(&block.block),
        Expr::If(choice) => {
            ends_new(&choice.then_branch)
                || choice
                    .else_branch
                    .as_ref()
                    .is_some_and(|(_, other)| is_new(other))
        }
        Expr::Match(choice) => choice.arms.iter().any(|arm| is_new(&arm.body)),
        _ => false,
    }
}

/// The functions of `RateLimiter` that make a limiter, with any arguments.
const CONSTRUCTORS: [&str; 4] = ["builder", "from_env", "memory", "redis"];

/// Methods that may return their argument.
const GIVES_ARGUMENT: [&str; 9] = [
    "map_or",
    "map_or_else",
    "or",
    "or_else",
    "then",
    "then_some",
    "unwrap_or",
    "unwrap_or_else",
    "xor",
];

/// `true` if `expr` is a new limiter, or a function that makes one.
fn makes(expr: &Expr) -> bool {
    match expr {
        Expr::Closure(closure) => is_new(&closure.body),
        Expr::Path(path) => {
            let (owner, last) = names::last_two(&path.path);
            owner == "RateLimiter" && CONSTRUCTORS.contains(&last.as_str())
        }
        _ => is_new(expr),
    }
}

/// `true` if `expr` makes a store, as `MemoryStore::new()` does. An existing store is shared.
fn makes_store(expr: &Expr) -> bool {
    match expr {
        Expr::Call(call) => {
            let owner = names::of_function(&call.func)
                .map(|(owner, _)| owner)
                .unwrap_or_default();
            owner.ends_with("Store")
                || matches!(owner.as_str(), "Arc" | "Box") && call.args.iter().any(makes_store)
        }
        Expr::MethodCall(call) => makes_store(&call.receiver),
        Expr::Try(question) => makes_store(&question.expr),
        _ => false,
    }
}

/// `true` if the last expression of `block` is a new limiter.
fn ends_new(block: &Block) -> bool {
    matches!(block.stmts.last(), Some(Stmt::Expr(last, None)) if is_new(last))
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
    fn a_limiter_that_is_made_for_the_call_is_an_error() {
        for text in [
            "{ let url = url(); RateLimiter::redis(url).expect(\"a url\") }",
            "(RateLimiter::builder().prefix(\"a\").build().unwrap())",
            "RateLimiter::with_store(Arc::new(MemoryStore::new()))",
            "RateLimiter::builder().store(MemoryStore::new()).build().unwrap()",
            "self.limiter.as_ref().unwrap_or(&RateLimiter::memory())",
            "match &self.limiter { Some(limiter) => limiter.clone(), None => RateLimiter::memory() \
             }",
            "if strict { self.limiter.clone() } else { RateLimiter::memory() }",
            "RateLimiter::redis(URL)?",
        ] {
            assert_eq!(errors(text).len(), 1, "{text}");
        }
    }

    #[test]
    fn a_limiter_that_exists_is_accepted() {
        for text in [
            "self.limiter",
            "&state.limiter",
            "LIMITER",
            "limiters.of(tenant)",
            "limiter_of(tenant)",
            "RateLimiter::with_store(self.store.clone())",
            "RateLimiter::with_store(Arc::clone(&self.store))",
            "RateLimiter::with_store(STORE.clone())",
            "RateLimiter::builder().store(self.store.clone()).prefix(\"a\").build().unwrap()",
            "self.limiter.as_ref().unwrap_or(&LIMITER)",
            "self.limiter.clone().unwrap_or_else(RateLimiter::current)",
            "match plan { Plan::Free => &self.free, Plan::Paid => &self.paid }",
            "{ let limiter = self.limiter.lock(); limiter.clone() }",
            "RateLimiter::current()",
            "CELL.get_or_init(RateLimiter::memory)",
            "CELL.get_or_init(|| RateLimiter::memory())",
            "self.limiters.entry(tenant).or_insert(RateLimiter::memory())",
            "RateLimiter::clone(&self.limiter)",
            "tenant.map_or_else(RateLimiter::current, |tenant| RateLimiter::clone(&tenant.limiter))",
            "RateLimiter::of(tenant)",
            "self.of(tenant).unwrap_or_else(|| { let new = RateLimiter::memory(); \
             self.keep(tenant, new.clone()); new })",
            "{ static ONE: LazyLock<RateLimiter> = LazyLock::new(RateLimiter::memory); &ONE }",
        ] {
            assert!(errors(text).is_empty(), "{text}: {:?}", errors(text));
        }
    }
}
