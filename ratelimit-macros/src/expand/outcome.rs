//! `count`: which outcomes count. The guard reserves, and what the body returns settles it.
//!
//! This is the one case in which the body does not stay where it is: it becomes an async block, so that `?` and
//! `return` end there. Nothing but the reservation lives while it runs; dropped, because the call is cancelled or
//! panics, the reservation counts.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;
use syn::spanned::Spanned as _;

use super::{Context, ReturnType};
use crate::plan::{Count, Rule};

/// Whether the outcome counts for one of the rules.
pub(super) fn counts(rules: &[Rule]) -> bool {
    rules.iter().any(|rule| !matches!(rule.count, Count::All))
}

impl Context {
    /// Statements: reserves before the body.
    pub(super) fn reservation(&self, rules: &[Rule], refusal: Option<&TokenStream>) -> TokenStream {
        let mixed = Span::mixed_site();
        let private = &self.private;
        let checks = rules.iter().map(|rule| self.optional_check(rule));
        let held = if let Some(refusal) = refusal {
            quote_spanned! {mixed=>
                match __ratelimit_run.await {
                    ::core::result::Result::Ok(__ratelimit_reserved) => __ratelimit_reserved,
                    ::core::result::Result::Err(__ratelimit_error) => return #refusal,
                }
            }
        } else {
            quote_spanned!(mixed=> ::core::result::Result::ok(__ratelimit_run.await))
        };
        quote_spanned! {mixed=>
            let __ratelimit_reserved = {
                let __ratelimit_run = #private::run_reserved([#(#checks),*]);
                #held
            };
        }
    }

    /// Statements and a last expression: runs `body`, a block, and settles by what it returns.
    pub(super) fn settled(&self, rules: &[Rule], refuses: bool, body: &TokenStream) -> TokenStream {
        let mixed = Span::mixed_site();
        let private = &self.private;
        let ReturnType { ty, span } = &self.returns;
        let counts: Vec<_> = rules.iter().map(|rule| self.count(&rule.count)).collect();
        let settle = quote_spanned!(mixed=> #private::Reservations::settle(__ratelimit_reserved, [#(#counts),*]););
        let settle = if refuses {
            settle
        } else {
            quote_spanned! {mixed=>
                if let ::core::option::Option::Some(__ratelimit_reserved) = __ratelimit_reserved {
                    #settle
                }
            }
        };
        // The `return` that never runs tells the block its type before the body is checked, so that the body's own
        // errors, coercions and `?` are what they were.
        let never = quote_spanned!(*span=> return __ratelimit_never;);
        quote_spanned! {mixed=>
            let __ratelimit_outcome: #ty = async move {
                if let ::core::option::Option::Some(__ratelimit_never) = ::core::option::Option::None::<#ty> {
                    #never
                }
                #body
            }
            .await;
            #settle
            __ratelimit_outcome
        }
    }

    /// An expression: whether the outcome counts.
    fn count(&self, count: &Count) -> TokenStream {
        let mixed = Span::mixed_site();
        let ReturnType { span, .. } = &self.returns;
        let private = self.private_at(*span);
        match count {
            Count::All => quote_spanned!(mixed=> true),
            Count::Ok => quote_spanned!(*span=> #private::counts_ok(&__ratelimit_outcome)),
            Count::Err => quote_spanned!(*span=> #private::counts_err(&__ratelimit_outcome)),
            Count::By(expr) => {
                let span = expr.span().resolved_at(mixed);
                let expr = self.user(expr);
                let private = self.private_at(span);
                quote_spanned!(span=> #private::counts(&__ratelimit_outcome, #expr))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::expand::tests::expanded;

    const RESERVED: &str =
        "{let__ratelimit_reserved={let__ratelimit_run=::ratelimit_runtime::__private::run_reserved([";

    #[test]
    fn the_body_is_one_async_block() {
        let actual =
            expanded(r#"window = "1s", max = 1, count = "err""#, "async fn f() -> Result<A, E> { body; here }");
        let settled: String = r"
            ::core::result::Result::Err(__ratelimit_error) => return
                ::ratelimit_runtime::__private::refuse::<Result<A, E>>(__ratelimit_error),
            } };
            let __ratelimit_outcome: Result<A, E> = async move {
                if let ::core::option::Option::Some(__ratelimit_never) = ::core::option::Option::None::<Result<A, E>> {
                    return __ratelimit_never;
                }
                { body; here }
            }.await;
            ::ratelimit_runtime::__private::Reservations::settle(__ratelimit_reserved, [
                ::ratelimit_runtime::__private::counts_err(&__ratelimit_outcome)]);
            __ratelimit_outcome }"
            .split_whitespace()
            .collect();
        assert!(actual.contains(RESERVED), "{actual}");
        assert!(actual.ends_with(&settled), "{settled}\n{actual}");
        assert!(actual.contains("CheckBuilder::reserve(&mut__ratelimit_check);"), "{actual}");
    }

    #[test]
    fn what_is_asked_for_is_there() {
        for (arguments, function, parts) in [
            (
                r#"window = "1s", max = 1, count = |r| judge(r)"#,
                r#"#[rate_limit(window = "2s", max = 2)] #[rate_limit(window = "3s", max = 3, when = w, count = "ok")]
                   async fn f() -> Result<impl X, E> {}"#,
                vec![
                    "settle(__ratelimit_reserved,[\
                     ::ratelimit_runtime::__private::counts(&__ratelimit_outcome,|r|judge(r)),\
                     true,\
                     ::ratelimit_runtime::__private::counts_ok(&__ratelimit_outcome)]);",
                    "let__ratelimit_outcome:Result<_,E>=asyncmove{",
                ],
            ),
            (
                r#"window = "1s", max = 1, count = "err", shadow"#,
                "async fn f() -> R {}",
                vec![
                    "::core::result::Result::ok(__ratelimit_run.await)",
                    "iflet::core::option::Option::Some(__ratelimit_reserved)=__ratelimit_reserved{::ratelimit",
                ],
            ),
            (
                r#"window = "1s", max = 1, count = "all""#,
                "async fn f() -> R { body }",
                vec!["__private::run({", "(__ratelimit_error);}}body}"],
            ),
        ] {
            let actual = expanded(arguments, function);
            for part in parts {
                assert!(actual.contains(part), "{part}\n{actual}");
            }
        }
    }
}
