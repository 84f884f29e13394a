//! Policies as configuration files write them.

use std::collections::HashMap;
use std::time::Duration;

use ratelimit_runtime::{Algorithm, Key, Limit, OnUnavailable, Override, Policy};

type Policies = HashMap<String, Policy>;

#[test]
fn policies_come_from_toml_and_json() {
    let toml = r#"
        login = "5/1m, 50/1d"
        upload = { limits = ["1_000/1h"] }
        api = { limits = "100/1s", algorithm = "token_bucket", burst = 20, block = "10m" }
        strict = { limits = "5/1m", block = "1m..1h" }
        plan = { limits = "5/day", algorithm = "fixed_window", zone = "UTC" }
    "#;
    let json = r#"{
        "login": { "limits": ["5/1m", "50/1d"] },
        "upload": { "limits": ["1000/60m"] },
        "api": "token_bucket 100/1s burst 20 block 600s",
        "strict": "5/1m block 60s..60m",
        "plan": "fixed_window 5/day zone UTC"
    }"#;
    let from_toml: Policies = toml::from_str(toml).unwrap();
    assert_eq!(from_toml, serde_json::from_str::<Policies>(json).unwrap());
    let api = Policy::new(Limit::per_second(100).with_burst(20))
        .with_algorithm(Algorithm::TokenBucket)
        .with_block(Duration::from_secs(600));
    let [minute, hour] = [60, 3600].map(Duration::from_secs);
    let strict = Policy::new(Limit::per_minute(5)).with_growing_block(minute, hour);
    assert_eq!(from_toml.get("strict"), Some(&strict));
    assert_eq!(from_toml.get("api"), Some(&api));
    assert_eq!(
        from_toml.get("login"),
        Some(&Policy::new(Limit::per_minute(5)).and(Limit::per_day(50)))
    );
}

#[test]
fn a_table_holds_all_settings_of_a_policy() {
    let toml = r#"
        [api]
        limits = "10/1s, 100/1m"
        shadow = false
        wait = "2s"
        prefetch = "20ms"
        timeout = "50ms"
        on_unavailable = "deny"
        overrides = { "<acme>/<7>" = [100, 1_000], '<a\u{202e}b>' = { max = [1, 2] } }

        [upload]
        limits = "10/1s"
        algorithm = "token_bucket"
        shadow = true
        overrides."<acme>" = { max = 20, burst = 50 }
        overrides."<bob>" = { burst = 1 }
        overrides."<eve>" = 1
    "#;
    let read: Policies = toml::from_str(toml).unwrap();
    let key = |text| Key::from_rendered(text).unwrap();
    let api = Policy::new(Limit::per_second(10))
        .and(Limit::per_minute(100))
        .with_shadow(false)
        .with_wait(Duration::from_secs(2))
        .with_prefetch(Duration::from_millis(20))
        .with_timeout(Duration::from_millis(50))
        .with_on_unavailable(OnUnavailable::Deny)
        .with_override(&key("<acme>/<7>"), Override::max_of_each([100, 1_000]))
        .with_override(&key("<a\u{202e}b>"), Override::max_of_each([1, 2]));
    let upload = Policy::new(Limit::per_second(10))
        .with_algorithm(Algorithm::TokenBucket)
        .with_shadow(true)
        .with_override(&key("<acme>"), Override::max(20).with_burst(50))
        .with_override(&key("<bob>"), Override::burst(1))
        .with_override(&key("<eve>"), Override::max(1));
    assert_eq!(
        read,
        Policies::from([("api".to_owned(), api), ("upload".to_owned(), upload)])
    );
}

/// A configuration, and what the error says of it.
const MISTAKES: &[(&str, &str)] = &[
    (r#""0/1m""#, "refuses every call"),
    (r#""5/1us""#, "at least one millisecond"),
    (r#""5/53w""#, "at most 366 days"),
    ("[]", "or a table of `limits`"),
    (r#"{"limits": "5/1m", "brust": 5}"#, "unknown field `brust`"),
    (r#"{"algorithm": "fixed_window"}"#, "missing field `limits`"),
    (
        r#"{"limits": "5/1m", "algorithm": "gcra"}"#,
        "unknown algorithm \"gcra\": write sliding_window",
    ),
    (
        r#"{"limits": "fixed_window 5/1m"}"#,
        "`fixed_window 5` is not a number of calls",
    ),
    (
        r#"{"limits": {"limits": "5/1m", "block": "1m"}}"#,
        "or a list of them",
    ),
    (r#"{"limits": []}"#, "at least one limit"),
    (
        r#"{"limits": "5/1m", "burst": 5}"#,
        "`sliding_window` has no burst",
    ),
    (
        r#"{"limits": "5/1m", "block": "5"}"#,
        "`5` is not a duration",
    ),
    (
        r#"{"limits": "5/1m", "wait": "2s", "block": "1m"}"#,
        "either waits or is blocked",
    ),
    (
        r#"{"limits": "5/1m", "wait": "2s", "shadow": true}"#,
        "`wait` is never used",
    ),
    (
        r#"{"limits": "5/1m", "wait": "2h"}"#,
        "from \"1ms\" to \"1h\"",
    ),
    (
        r#"{"limits": "5/1m", "prefetch": "11s"}"#,
        "from \"10ms\" to \"10s\"",
    ),
    (
        r#"{"limits": "5/1m, 9/1s", "prefetch": "21ms"}"#,
        "write at most \"20ms\"",
    ),
    (
        r#"{"limits": "5/1m", "prefetch": "1s", "block": "1m"}"#,
        "leave `prefetch` out, or `block`",
    ),
    (
        r#"{"limits": "5/1m", "prefetch": 100}"#,
        "expected a string",
    ),
    (
        r#"{"limits": "5/1m", "prefech": "1s"}"#,
        "`wait`, `prefetch`, `timeout`",
    ),
    (
        r#"{"limits": "5/1m", "timeout": "2m"}"#,
        "from \"1ms\" to \"60s\"",
    ),
    (
        r#"{"limits": "5/1m", "on_unavailable": "open"}"#,
        "write local, allow, deny",
    ),
    (
        r#"{"limits": "5/1m", "shadow": "yes"}"#,
        "expected a boolean",
    ),
    (
        r#"{"limits": "5/1m", "overrides": {"alice": 9}}"#,
        "did you mean `<alice>`?",
    ),
    (
        r#"{"limits": "5/1m", "overrides": {"<a/b": 9}}"#,
        "each value in its brackets",
    ),
    (
        r#"{"limits": "5/1m", "overrides": {"<%61>": 9}}"#,
        "the override of `<%61>`: no call has this key",
    ),
    (
        r##"{"limits": "5/1m", "overrides": {"#fdb7f3c40645e79ca4c5d1638753243c": 9}}"##,
        "this key is hashed",
    ),
    (
        r#"{"limits": "5/1m", "overrides": {"": 9}}"#,
        "no call has this key",
    ),
    (
        r#"{"limits": "5/1m", "overrides": {"<a>": 9, "<a>": 8}}"#,
        "there is one already",
    ),
    (
        r#"{"limits": "5/1m", "overrides": {"<a>": -1}}"#,
        "expected a number of calls, a list of them",
    ),
    (
        r#"{"limits": "5/1m", "overrides": {"<a>": {}}}"#,
        "it changes nothing",
    ),
    (
        r#"{"limits": "5/1m", "overrides": {"<a>": [5, 6]}}"#,
        "one `max` for each limit of the policy, in their order: 1",
    ),
    (
        r#"{"limits": "5/1m, 9/1h", "overrides": {"<a>": 9}}"#,
        "in their order: 2",
    ),
    (
        r#"{"limits": "5/1m", "overrides": {"<a>": {"window": "1h"}}}"#,
        "or a table of `max` and `burst`",
    ),
    (
        r#"{"limits": "5/1m", "overrides": {"<a>": {"burst": 9}}}"#,
        "`sliding_window` has no burst",
    ),
];

#[test]
fn mistakes_in_a_configuration_are_named() {
    for (json, expected) in MISTAKES {
        let error = serde_json::from_str::<Policy>(json)
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{json}: {error}");
    }
}
