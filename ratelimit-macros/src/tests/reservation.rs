//! The guard where `count` or `actual_cost` is given.

use super::support::expanded;

const RESERVED: &str = "{use::ratelimit_runtime::__privateas__ratelimit;\
    let__ratelimit_reservation={let__ratelimit_run=__ratelimit::run_reserved([";

#[test]
fn the_body_is_one_async_block() {
    let actual = expanded(r#"window = "1s", max = 1, count = "err""#, "async fn f() -> Result<A, E> { body; here }");
    let finished: String = r"
        ::core::result::Result::Err(__ratelimit_error) => return
            __ratelimit::refuse::<Result<A, E>>(__ratelimit_error),
        } };
        let __ratelimit_outcome: Result<A, E> = async move {
            if let ::core::option::Option::Some(__ratelimit_never) = ::core::option::Option::None::<Result<A, E>> {
                return __ratelimit_never;
            }
            { body; here }
        }.await;
        __ratelimit::Reservations::complete(__ratelimit_reservation, [
            __ratelimit::counts_err(&__ratelimit_outcome)]);
        __ratelimit_outcome }"
        .split_whitespace()
        .collect();
    assert!(actual.contains(RESERVED), "{actual}");
    assert!(actual.ends_with(&finished), "{finished}\n{actual}");
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
                "complete(__ratelimit_reservation,[\
                 __ratelimit::counts(&__ratelimit_outcome,|r|judge(r)),\
                 __ratelimit::Completion::Commit,\
                 __ratelimit::counts_ok(&__ratelimit_outcome)]);",
                "let__ratelimit_outcome:Result<_,E>=asyncmove{",
            ],
        ),
        (
            r#"window = "1s", max = 9, cost = n, actual_cost = |r| r.n"#,
            "async fn f(n: u8) -> R {}",
            vec![
                "CheckBuilder::reserve_estimate(&mut__ratelimit_check);",
                "complete(__ratelimit_reservation,[__ratelimit::actual_cost(&__ratelimit_outcome,|r|r.n)]);",
            ],
        ),
        (
            r#"window = "1s", max = 1, count = "err", shadow"#,
            "async fn f() -> R {}",
            vec![
                "::core::result::Result::ok(__ratelimit_run.await)",
                "iflet::core::option::Option::Some(__ratelimit_reservation)=__ratelimit_reservation{__ratelimit",
            ],
        ),
        (
            r#"window = "1s", max = 1, count = "all""#,
            "async fn f() -> R { body }",
            vec![
                "__ratelimit::run(&mut__ratelimit::CheckBuilder::new(__ratelimit_rule))",
                "(__ratelimit_error);}}body}",
            ],
        ),
    ] {
        let actual = expanded(arguments, function);
        for part in parts {
            assert!(actual.contains(part), "{part}\n{actual}");
        }
    }
}
