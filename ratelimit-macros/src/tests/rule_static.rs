//! The static of a rule.

use super::support::expanded;

#[test]
fn settings() {
    const NEW: &str = "Rule::new(\"n\",__ratelimit::Limit::new(";
    for (arguments, limits, settings) in [
        (r#"window = "1s", max = 3"#, "3u64,::core::time::Duration::from_micros(1000000u64)))", ""),
        (
            r#"limits = ["3/1s", "20/1m"], algorithm = "fixed_window""#,
            "3u64,::core::time::Duration::from_micros(1000000u64)))\
             .and(__ratelimit::Limit::new(20u64,::core::time::Duration::from_micros(60000000u64)))",
            ".with_algorithm(__ratelimit::Algorithm::FixedWindow)",
        ),
        (
            r#"policy = "login", wait = "2s""#,
            "1u64,::core::time::Duration::from_micros(1000000u64)))",
            ".with_policy(\"login\").with_wait(::core::time::Duration::from_micros(2000000u64))",
        ),
        ("policy = plan.policy()", "1u64,::core::time::Duration::from_micros(1000000u64)))", ".with_policy_per_call()"),
        (
            r#"window = "1s", max = 3, algorithm = "token_bucket", burst = 10, cost = 2, block = "5ms""#,
            "3u64,::core::time::Duration::from_micros(1000000u64)).with_burst(10u64))",
            ".with_algorithm(__ratelimit::Algorithm::TokenBucket)\
             .with_block(::core::time::Duration::from_micros(5000u64))",
        ),
        (
            r#"window = "1s", max = 3, algorithm = "token_bucket", block = "5ms..2s""#,
            "3u64,::core::time::Duration::from_micros(1000000u64)))",
            ".with_algorithm(__ratelimit::Algorithm::TokenBucket)\
             .with_growing_block(::core::time::Duration::from_micros(5000u64),::core::time::Duration::from_micros(2000000u64))",
        ),
        (
            r#"window = "1s", max = n, algorithm = "leaky_bucket""#,
            "1u64,::core::time::Duration::from_micros(1000000u64)))",
            ".with_algorithm(__ratelimit::Algorithm::LeakyBucket)",
        ),
        (
            r#"window = "1s", max = 3, algorithm = "sliding_counter", timeout = "5ms", on_unavailable = "allow""#,
            "3u64,::core::time::Duration::from_micros(1000000u64)))",
            ".with_algorithm(__ratelimit::Algorithm::SlidingCounter)\
             .with_timeout(::core::time::Duration::from_micros(5000u64))\
             .with_on_unavailable(__ratelimit::OnUnavailable::Allow)",
        ),
        (
            r#"window = "1s", max = 3, algorithm = "sliding_window", count = "err""#,
            "3u64,::core::time::Duration::from_micros(1000000u64)))",
            ".with_algorithm(__ratelimit::Algorithm::SlidingWindow)",
        ),
    ] {
        let actual = expanded(&format!("name = \"n\", {arguments}"), "async fn f() -> R {}");
        let expected = format!("{NEW}{limits}{settings};");
        assert!(actual.contains(&expected), "{expected}\n{actual}");
    }
}
