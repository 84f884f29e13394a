//! The last stage: a plan into tokens. It cannot fail.
//!
//! Every token made here resolves at `mixed_site`, so that no name of it meets a name of the user and no lint
//! takes it for the user's code; where it stands for something the user wrote it is located there, so that
//! errors underline that.
//!
//! The guard stands before the body, which stays as it is. Only where the outcome counts is the body put into an
//! async block (`outcome`).

mod definition;
mod expression;
mod outcome;
mod question;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::spanned::Spanned as _;
use syn::visit_mut::{self, VisitMut};
use syn::{Path, Token, Type, TypeInfer};

use crate::body::Returns;
use crate::plan::{Answer, Plan, Rule, Value, ValueStep};

/// The function with its guard.
pub(crate) fn expand(plan: Plan) -> TokenStream {
    let Plan { function, body, krate, rules, answer } = plan;
    let private = private(krate.as_ref(), Span::mixed_site());
    let context =
        Context { krate, private, receiver: body.scope.receiver.clone(), returns: ReturnType::of(&body.returns) };
    let refusal = context.refusal(&answer);
    let body = if outcome::counts(&rules) {
        let guard = context.reservation(&rules, refusal.as_ref());
        body.wrapped(&function.body, guard, |body| context.settled(&rules, refusal.is_some(), &body))
    } else {
        let guard = context.guard(&rules, refusal.as_ref());
        body.guarded(&function.body, guard)
    };
    function.with_body(&body)
}

/// The path of what expansions may use. It is located at `span`, so that an error about a call of it underlines nothing
/// else; one that the user gave stays where it was written.
pub(crate) fn private(krate: Option<&Path>, span: Span) -> TokenStream {
    let mixed = Span::mixed_site();
    let Some(krate) = krate else {
        let span = span.resolved_at(mixed);
        return quote_spanned!(span=> ::ratelimit_runtime::__private);
    };
    let span = krate.segments.last().map_or(mixed, |last| last.ident.span().resolved_at(mixed));
    quote_spanned!(span=> #krate::__private)
}

/// `root.field.0.method()`.
pub(crate) fn value(value: &Value) -> TokenStream {
    let mut tokens = value.root.to_token_stream();
    let span = value.root.span().resolved_at(Span::mixed_site());
    for step in &value.steps {
        tokens.extend(match step {
            ValueStep::Field(member) => quote_spanned!(span=> .#member),
            ValueStep::Call(method) => quote_spanned!(span=> .#method()),
        });
    }
    tokens
}

struct Context {
    krate: Option<Path>,
    /// What expansions may use, located at the attribute.
    private: TokenStream,
    /// What the user's `self` is called where the guard stands.
    receiver: Option<Ident>,
    returns: ReturnType,
}

/// What `return` returns where the guard stands, as an expression may say it.
struct ReturnType {
    ty: TokenStream,
    /// Where the function says so.
    span: Span,
}

impl ReturnType {
    fn of(returns: &Returns) -> Self {
        let mixed = Span::mixed_site();
        let (ty, span) = match returns {
            Returns::Type(ty) => (named(ty).into_token_stream(), ty.span().resolved_at(mixed)),
            Returns::Nothing(tokens) => (quote_spanned!(mixed=> ()), tokens.span().resolved_at(mixed)),
            Returns::Unknown => (quote_spanned!(mixed=> _), mixed),
        };
        Self { ty, span }
    }
}

/// `ty` with each `impl Trait` in it left to inference: it cannot be written in an expression.
fn named(ty: &Type) -> Type {
    struct Eraser;
    impl VisitMut for Eraser {
        fn visit_type_mut(&mut self, ty: &mut Type) {
            if matches!(ty, Type::ImplTrait(_)) {
                let span = ty.span().resolved_at(Span::mixed_site());
                *ty = Type::Infer(TypeInfer { attrs: Vec::new(), underscore_token: Token![_](span) });
            } else {
                visit_mut::visit_type_mut(self, ty);
            }
        }
    }
    let mut ty = ty.clone();
    Eraser.visit_type_mut(&mut ty);
    ty
}

impl Context {
    /// Asks before the body.
    fn guard(&self, rules: &[Rule], refusal: Option<&TokenStream>) -> TokenStream {
        let mixed = Span::mixed_site();
        let private = &self.private;
        let run = match rules {
            [rule] if rule.when.is_none() => {
                let check = self.check(rule);
                quote_spanned!(mixed=> #private::run(#check))
            }
            _ => {
                let checks = rules.iter().map(|rule| self.optional_check(rule));
                quote_spanned!(mixed=> #private::run_all([#(#checks),*]))
            }
        };
        // What is borrowed from the arguments is given back before the first `.await`.
        let outcome = if let Some(refusal) = refusal {
            quote_spanned! {mixed=>
                if let ::core::result::Result::Err(__ratelimit_error) = __ratelimit_run.await {
                    return #refusal;
                }
            }
        } else {
            quote_spanned!(mixed=> ::core::mem::drop(__ratelimit_run.await);)
        };
        quote_spanned! {mixed=>
            {
                let __ratelimit_run = #run;
                #outcome
            }
        }
    }

    fn private_at(&self, span: Span) -> TokenStream {
        private(self.krate.as_ref(), span)
    }

    /// The value that a refused call returns, located at the return type.
    fn refusal(&self, answer: &Answer) -> Option<TokenStream> {
        let ReturnType { ty, span } = &self.returns;
        match answer {
            Answer::Never => None,
            Answer::ByType => {
                let private = self.private_at(*span);
                Some(quote_spanned!(*span=> #private::refuse::<#ty>(__ratelimit_error)))
            }
            Answer::By(expr) => {
                let span = expr.span().resolved_at(Span::mixed_site());
                let expr = self.operand(expr);
                let private = self.private_at(span);
                Some(quote_spanned!(span=> #private::refuse_with::<#ty, _>(#expr, __ratelimit_error)))
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::check::check;

    pub(super) fn expanded(arguments: &str, function: &str) -> String {
        let plan = check(arguments.parse().unwrap(), syn::parse_str(function).unwrap()).ok().unwrap();
        normal(&expand(plan))
    }

    pub(super) fn normal(tokens: &TokenStream) -> String {
        tokens.to_string().split_whitespace().collect::<Vec<_>>().join("")
    }

    pub(super) fn source(text: &str) -> String {
        normal(&text.parse().unwrap())
    }

    #[test]
    fn the_guard_stands_before_the_untouched_body() {
        let actual = expanded(
            r#"key = "<email>:<a.0>", window = "60s", max = 3"#,
            "/// doc\n pub async fn f(email: &str, a: A) -> Result<(), E> { body; here }",
        );
        let expected = source(
            r#"
            /// doc
            pub async fn f(email: &str, a: A) -> Result<(), E> {
                {
                    let __ratelimit_run = ::ratelimit_runtime::__private::run({
                        let __ratelimit_rule = {
                            struct __RatelimitHere;
                            static __RATELIMIT_RULE: ::ratelimit_runtime::__private::Rule =
                                ::ratelimit_runtime::__private::Rule::derived(
                                    || ::core::any::type_name::<__RatelimitHere>(),
                                    ::ratelimit_runtime::__private::Limit::new(
                                        3u64, ::core::time::Duration::from_micros(60000000u64)));
                            &__RATELIMIT_RULE
                        };
                        let mut __ratelimit_check = ::ratelimit_runtime::__private::CheckBuilder::new(__ratelimit_rule);
                        ::ratelimit_runtime::__private::CheckBuilder::part(&mut __ratelimit_check, &email);
                        ::ratelimit_runtime::__private::CheckBuilder::text(&mut __ratelimit_check, ":");
                        ::ratelimit_runtime::__private::CheckBuilder::part(&mut __ratelimit_check, &a.0);
                        __ratelimit_check
                    });
                    if let ::core::result::Result::Err(__ratelimit_error) = __ratelimit_run.await {
                        return ::ratelimit_runtime::__private::refuse::<Result<(), E> >(__ratelimit_error);
                    }
                }
                { body; here }
            }"#,
        );
        assert_eq!(actual, expected);
    }

    #[test]
    fn what_is_asked_for_is_there() {
        for (arguments, function, parts) in [
            (
                r#"window = "1s", max = n + 1, cost = c, limiter = &self.l, shadow = s, key = &a + b, timeout = "5ms", name = "x", on_unavailable = "deny", crate = ::y"#,
                "async fn f() -> R {}",
                vec![
                    "::y::__private::Rule::new(\"x\",",
                    "Limit::new(1u64,",
                    ".weighted().with_timeout(::core::time::Duration::from_micros(5000u64)).with_on_unavailable(::y::__private::OnUnavailable::Deny);",
                    "CheckBuilder::on(__ratelimit_rule,::y::__private::limiter(&(&self.l)))",
                    "CheckBuilder::max(&mut__ratelimit_check,::y::__private::count(n+1));",
                    "CheckBuilder::cost(&mut__ratelimit_check,::y::__private::count(c));",
                    "let__ratelimit_shadow:::core::primitive::bool=s;",
                    "CheckBuilder::part(&mut__ratelimit_check,&(&a+b));",
                ],
            ),
            (
                r#"window = "1s", max = 1, when = w, on_refused = |e| r(e)"#,
                "async fn f() -> impl X {}",
                vec![
                    "run_all([{let__ratelimit_when:::core::primitive::bool=w;if__ratelimit_when{::core::option::Option::Some(",
                    "refuse_with::<_,_>((|e|r(e)),__ratelimit_error)",
                ],
            ),
            (r#"window = "1s", max = 1, shadow"#, "async fn f() {}", vec!["::core::mem::drop(__ratelimit_run.await);"]),
            (
                r#"window = "1s", max = 1"#,
                r#"#[rate_limit(window = "2s", max = 2)] async fn f() -> R {}"#,
                vec!["Rule::derived(||", "Rule::derived_nth(||", ",2u8,", "run_all([::core::option::Option::Some({"],
            ),
        ] {
            let actual = expanded(arguments, function);
            for part in parts {
                assert!(actual.contains(part), "{part}\n{actual}");
            }
        }
    }

    #[test]
    fn opaque_types_are_left_to_inference() {
        for (ty, expected) in [
            ("impl X", "_"),
            ("Result<impl X + 'a, E>", "Result<_, E>"),
            ("Result<(), Box<dyn E>>", "Result<(), Box<dyn E>>"),
        ] {
            let actual = named(&syn::parse_str(ty).unwrap()).into_token_stream();
            assert_eq!(normal(&actual), source(expected), "{ty}");
        }
    }
}
