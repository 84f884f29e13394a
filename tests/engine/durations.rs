//! What policies make of the texts in `durations.txt`, where a test of the attribute finds what
//! that makes of them.

use std::time::Duration;

use ratelimit_runtime::{Limit, Policy};

const TABLE: &str = include_str!("durations.txt");

/// The limit of one line of policy is `text`, and that is `expected`.
fn is_limit(text: &str, expected: &str) -> bool {
    let (max, window) = expected.split_once('/').unwrap();
    let limit = text.parse::<Limit>();
    match window.parse() {
        Ok(window) => {
            limit
                == Ok(Limit::new(
                    max.parse().unwrap(),
                    Duration::from_micros(window),
                ))
        }
        Err(_) => limit.is_ok_and(|limit| limit.to_string() == expected),
    }
}

/// The policy with `argument` set to this many microseconds, which a range gives twice.
fn policy(argument: &str, micros: &str) -> Policy {
    let duration = |micros: &str| Duration::from_micros(micros.parse().unwrap());
    let policy = Policy::new(Limit::new(1, Limit::MAX_WINDOW));
    match (argument, micros.split_once("..")) {
        ("block", Some((first, longest))) => {
            policy.with_growing_block(duration(first), duration(longest))
        }
        ("block", None) => policy.with_block(duration(micros)),
        ("wait", None) => policy.with_wait(duration(micros)),
        ("prefetch", None) => policy.with_prefetch(duration(micros)),
        ("lease", None) => policy.with_lease(duration(micros)),
        ("timeout", None) => policy.with_timeout(duration(micros)),
        other => unreachable!("{other:?}"),
    }
}

#[test]
fn policies_read_durations_and_limits_as_the_table_says() {
    let rows = TABLE
        .lines()
        .filter(|row| !row.is_empty() && !row.starts_with('#'));
    for row in rows {
        let columns: Vec<_> = row.split('|').map(str::trim).collect();
        let &[argument, text, .., expected] = columns.as_slice() else {
            panic!("{row}");
        };
        let line = format!("1/366d {argument} {text}");
        let as_expected = match (argument, expected) {
            ("window", "refused") => format!("1/{text}").parse::<Limit>().is_err(),
            ("window", micros) => is_limit(&format!("1/{text}"), &format!("1/{micros}")),
            ("limits", "refused") => text.parse::<Limit>().is_err(),
            ("limits", limit) => is_limit(text, limit),
            (_, "refused") => line.parse::<Policy>().is_err(),
            (_, micros) => line.parse() == Ok(policy(argument, micros)),
        };
        assert!(as_expected, "{row}");
    }
}
