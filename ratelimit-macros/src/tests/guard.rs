//! The guard of a function all of whose calls count.

use super::support::{expanded, source};

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
            "async fn f(a: A, b: B) -> R {}",
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
