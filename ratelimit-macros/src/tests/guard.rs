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
                use ::ratelimit_runtime::__private as __ratelimit;
                let __ratelimit_run = {
                    let __ratelimit_rule = {
                        struct __RatelimitHere;
                        static __RATELIMIT_RULE: __ratelimit::Rule =
                            __ratelimit::Rule::derived(
                                || ::core::any::type_name::<__RatelimitHere>(),
                                __ratelimit::Limit::new(
                                    3u64, ::core::time::Duration::from_micros(60000000u64)));
                        &__RATELIMIT_RULE
                    };
                    let mut __ratelimit_check = __ratelimit::CheckBuilder::new(__ratelimit_rule);
                    __ratelimit::CheckBuilder::part(&mut __ratelimit_check, &email);
                    __ratelimit::CheckBuilder::text(&mut __ratelimit_check, ":");
                    __ratelimit::CheckBuilder::part(&mut __ratelimit_check, &a.0);
                    __ratelimit::run(&mut __ratelimit_check)
                };
                if let ::core::result::Result::Err(__ratelimit_error) = __ratelimit_run.await {
                    return __ratelimit::refuse::<Result<(), E> >(__ratelimit_error);
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
                "{use::y::__ratelimit_runtimeas__ratelimit;let__ratelimit_run",
                "__ratelimit::Rule::new(\"x\",",
                "Limit::new(1u64,",
                ".with_timeout(::core::time::Duration::from_micros(5000u64)).with_on_unavailable(__ratelimit::OnUnavailable::Deny);",
                "CheckBuilder::on(__ratelimit_rule,__ratelimit::limiter(&(&self.l)))",
                "CheckBuilder::max(&mut__ratelimit_check,__ratelimit::count(n+1));",
                "CheckBuilder::cost(&mut__ratelimit_check,__ratelimit::count(c));",
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
