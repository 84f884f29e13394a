//! `limiter`: it must be there before the call, and after it.

use quote::ToTokens as _;
use syn::{Block, Expr, Ident, Local, Pat, Stmt};

use crate::check::function::body::mentions;
use crate::check::function::names;
use crate::diagnostics::Diagnostics;
use crate::literal::as_literal;

/// Reports a literal, and a limiter that the expression itself makes.
pub(crate) fn check(value: &Expr, diagnostics: &mut Diagnostics) {
    if as_literal(value).is_some() {
        let message =
            "`limiter` is a `RateLimiter`: write where it is, as in `limiter = self.limiter`";
        diagnostics.error(value, message);
    }
    if is_new(value, &[]) {
        let message = "this makes a new limiter for every call, and that has counted nothing yet: \
            make one, in a field or a `static … : LazyLock<RateLimiter>`, and write where it is, \
            as in `limiter = self.limiter`";
        diagnostics.error(value, message);
    }
}

/// Whether the value of `expr` may be a limiter that it makes: `RateLimiter::memory()`, with any
/// methods called on it. `locals` are those that hold such a limiter.
fn is_new(expr: &Expr, locals: &[&Ident]) -> bool {
    let new = |expr: &Expr| is_new(expr, locals);
    match expr {
        Expr::Reference(reference) => new(&reference.expr),
        Expr::Paren(paren) => new(&paren.expr),
        Expr::Group(group) => new(&group.expr),
        Expr::Unary(unary) => new(&unary.expr),
        Expr::Cast(cast) => new(&cast.expr),
        Expr::Try(question) => new(&question.expr),
        Expr::MethodCall(call) => {
            let gives_argument = GIVES_ARGUMENT.iter().any(|name| call.method == name);
            let shared_store = call.method == "store" && !call.args.iter().any(makes_store);
            !shared_store && new(&call.receiver)
                || gives_argument && call.args.iter().any(|given| makes(given, locals))
        }
        Expr::Call(call) => match names::of_function(&call.func) {
            Some((owner, last)) => match (owner.as_str(), last.as_str()) {
                ("RateLimiter", "with_store") => call.args.iter().any(makes_store),
                ("RateLimiter", last) => CONSTRUCTORS.contains(&last),
                (
                    "RateLimiterBuilder" | "LazyLock" | "LazyCell" | "Lazy" | "OnceLock"
                    | "OnceCell",
                    "new",
                ) => true,
                ("Arc" | "Box" | "Rc" | "Cow", _) | (_, "Some" | "Ok") => call.args.iter().any(new),
                _ => false,
            },
            None => makes(&call.func, locals),
        },
        Expr::Path(path) => path
            .path
            .get_ident()
            .is_some_and(|name| locals.contains(&name)),
        Expr::Block(block) => ends_new(&block.block, locals),
        Expr::Unsafe(block) => ends_new(&block.block, locals),
        Expr::If(choice) => {
            ends_new(&choice.then_branch, locals)
                || choice
                    .else_branch
                    .as_ref()
                    .is_some_and(|(_, other)| new(other))
        }
        Expr::Match(choice) => choice.arms.iter().any(|arm| new(&arm.body)),
        _ => false,
    }
}

/// Functions of `RateLimiter` that make one, with any arguments.
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

/// Whether `expr` is a new limiter, or a function that makes one.
fn makes(expr: &Expr, locals: &[&Ident]) -> bool {
    match expr {
        Expr::Paren(paren) => makes(&paren.expr, locals),
        Expr::Closure(closure) => is_new(&closure.body, locals),
        Expr::Path(path) => {
            let (owner, last) = names::last_two(&path.path);
            owner == "RateLimiter" && CONSTRUCTORS.contains(&last.as_str()) || is_new(expr, locals)
        }
        _ => is_new(expr, locals),
    }
}

/// Whether `expr` makes a store, as `MemoryStore::new()` does. An existing store is shared.
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

/// Whether the last expression of `block` is a new limiter, by way of a local or not. A local that
/// another statement uses may be kept there, for the next call.
fn ends_new<'a>(block: &'a Block, locals: &[&'a Ident]) -> bool {
    let Some((Stmt::Expr(last, None), statements)) = block.stmts.split_last() else {
        return false;
    };
    let mut locals = locals.to_vec();
    for statement in statements {
        if let Stmt::Local(Local {
            pat,
            init: Some(init),
            ..
        }) = statement
            && let Some(name) = named(pat)
            && is_new(&init.expr, &locals)
        {
            locals.push(name);
        } else {
            let tokens = statement.to_token_stream();
            locals.retain(|local| !mentions(&tokens, &local.to_string()));
        }
    }
    is_new(last, &locals)
}

/// The only name of a pattern.
fn named(pat: &Pat) -> Option<&Ident> {
    match pat {
        Pat::Ident(name) => Some(&name.ident),
        Pat::Type(typed) => named(&typed.pat),
        _ => None,
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
            "{ let url = url(); RateLimiter::redis(url).expect(\"a url\") }",
            "(RateLimiter::builder().prefix(\"a\").build().unwrap())",
            "RateLimiter::with_store(Arc::new(MemoryStore::new()))",
            "RateLimiter::builder().store(MemoryStore::new()).build().unwrap()",
            "self.limiter.as_ref().unwrap_or(&RateLimiter::memory())",
            "match &self.limiter { Some(limiter) => limiter.clone(), None => RateLimiter::memory() \
             }",
            "if strict { self.limiter.clone() } else { RateLimiter::memory() }",
            "{ let limiter: RateLimiter = RateLimiter::memory(); let shared = &limiter; \
             shared.clone() }",
            "{ let cell = OnceLock::new(); cell.get_or_init(RateLimiter::memory).clone() }",
            "(|| RateLimiter::memory())()",
            "RateLimiter::redis(URL)?",
        ] {
            assert_eq!(errors(text).len(), 1, "{text}");
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
            "RateLimiter::with_store(self.store.clone())",
            "RateLimiter::with_store(Arc::clone(&self.store))",
            "RateLimiter::with_store(STORE.clone())",
            "RateLimiter::builder().store(self.store.clone()).prefix(\"a\").build().unwrap()",
            "self.limiter.as_ref().unwrap_or(&LIMITER)",
            "self.limiter.clone().unwrap_or_else(RateLimiter::current)",
            "match plan { Plan::Free => &self.free, Plan::Paid => &self.paid }",
            "{ let limiter = RateLimiter::memory(); let limiter = self.limiter.clone(); limiter }",
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
            "{ let new = RateLimiter::memory(); let kept = self.keep(tenant, new.clone()); new }",
            "{ let new = RateLimiter::memory(); if let Some(map) = map { map.insert(tenant, \
             new.clone()); } new }",
            "{ static ONE: LazyLock<RateLimiter> = LazyLock::new(RateLimiter::memory); &ONE }",
        ] {
            assert!(errors(text).is_empty(), "{text}: {:?}", errors(text));
        }
    }
}
