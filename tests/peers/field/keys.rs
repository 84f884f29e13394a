//! Who shares a bucket with whom.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ratelimit_runtime::rate_limit;

use super::*;

type Outcome = Result<(), RateLimitError>;

fn is_refused(outcome: &Outcome) -> bool {
    matches!(outcome, Err(RateLimitError::Exceeded(_)))
}

#[rate_limit(key = "<tenant>:<email>", window = "60s", max = 1)]
async fn of_two_parts(tenant: &str, email: &str) -> Outcome {
    let _ = (tenant, email);
    Ok(())
}

/// Parts that are joined by a character they may hold themselves let one caller use another one's
/// key.
#[tokio::test]
async fn different_arguments_never_share_a_bucket() {
    let pairs = [
        ("a:b", "c"),
        ("a", "b:c"),
        ("a:b:c", ""),
        ("", "a:b:c"),
        ("a>:<b", "c"),
        ("a", "b>:<c"),
        ("a%3E", ""),
        ("a>", ""),
        ("#a", ""),
        ("A:B", "c"),
        (" a", "b"),
        ("a", " b"),
    ];
    for (limiter, _clock) in both() {
        let scenario = async {
            for (tenant, email) in pairs {
                assert!(of_two_parts(tenant, email).await.is_ok(), "{tenant:?} {email:?} shares a bucket");
            }
            for (tenant, email) in pairs {
                assert!(is_refused(&of_two_parts(tenant, email).await), "{tenant:?} {email:?} is not limited");
            }
        };
        limiter.scope(scenario).await;
    }
}

#[rate_limit(key = "<email>", window = "60s", max = 1)]
async fn by_email(email: &str) -> Outcome {
    let _ = email;
    Ok(())
}

/// Where an empty key means "no key", it skips the limit.
#[tokio::test]
async fn an_empty_key_is_a_key_like_any_other() {
    for (limiter, _clock) in both() {
        let scenario = async {
            assert!(by_email("").await.is_ok());
            assert!(is_refused(&by_email("").await));
            assert!(by_email("x").await.is_ok());
        };
        limiter.scope(scenario).await;
        let rule = Rule::new("empty", Limit::per_minute(1));
        assert!(admits(&limiter, &rule, &Key::of("")).await);
        assert!(admits(&limiter, &rule, &Key::global()).await, "the empty value is not the absence of one");
        assert!(!admits(&limiter, &rule, &Key::of("")).await);
    }
}

/// Keys made of a value's text only, not of the whole rule, cannot hold the separator.
#[tokio::test]
async fn colons_in_names_and_values_are_ordinary_characters() {
    for (limiter, _clock) in both() {
        let rule = |name| Rule::new(name, Limit::per_minute(1));
        for (name, value) in [("a:b", "c"), ("a", "b:c"), ("a:", "c"), ("a%3A", "c"), ("a", "c")] {
            assert!(admits(&limiter, &rule(name), &Key::of(value)).await, "{name} {value}");
            assert!(!admits(&limiter, &rule(name), &Key::of(value)).await, "{name} {value}");
        }
    }
}

mod admin {
    use super::*;

    #[rate_limit(key = "<email>", window = "60s", max = 1)]
    pub(super) async fn by_email(email: &str) -> Outcome {
        let _ = email;
        Ok(())
    }
}

struct Mail;
struct Sms;

impl Mail {
    #[rate_limit(key = "<to>", window = "60s", max = 1)]
    async fn send(&self, to: &str) -> Outcome {
        let _ = to;
        Ok(())
    }
}

impl Sms {
    #[rate_limit(key = "<to>", window = "60s", max = 1)]
    async fn send(&self, to: &str) -> Outcome {
        let _ = to;
        Ok(())
    }
}

trait Send {
    async fn send(&self, to: &str) -> Outcome;
}

impl Send for Mail {
    #[rate_limit(key = "<to>", window = "60s", max = 1)]
    async fn send(&self, to: &str) -> Outcome {
        let _ = to;
        Ok(())
    }
}

/// Handlers told apart by their last name only share one limit; so do methods whose keys are
/// spelled alike.
#[tokio::test]
async fn functions_of_one_name_in_different_modules_and_types_are_apart() {
    for (limiter, _clock) in both() {
        let scenario = async {
            assert!(by_email("a").await.is_ok());
            assert!(admin::by_email("a").await.is_ok());
            assert!(Mail.send("a").await.is_ok());
            assert!(Sms.send("a").await.is_ok());
            assert!(Send::send(&Mail, "a").await.is_ok());
            assert!(is_refused(&by_email("a").await));
            assert!(is_refused(&admin::by_email("a").await));
            assert!(is_refused(&Mail.send("a").await));
            assert!(is_refused(&Sms.send("a").await));
            assert!(is_refused(&Send::send(&Mail, "a").await));
        };
        limiter.scope(scenario).await;
    }
}

/// Keys that hold whatever a caller sends fill the server, break its protocol, or choose the node
/// of a cluster.
#[tokio::test]
async fn hostile_values_are_bounded_harmless_and_apart() {
    let server = shared();
    let (limiter, prefix) = on_redis(server);
    let megabyte = "x".repeat(1 << 20);
    let other_megabyte = format!("{megabyte}y");
    let braces = "{".repeat(1_000);
    let values = [
        "a\nb",
        "a\r\nb",
        "a\0b",
        "\0",
        "{a}",
        "{b}",
        "{a}{b}",
        "*3\r\n$3\r\nDEL\r\n",
        "\u{202e}abc",
        "\u{7f}",
        "'; redis.call('FLUSHALL') --",
        &megabyte,
        &other_megabyte,
        &braces,
    ];
    let scenario = async {
        for value in values {
            assert!(by_email(value).await.is_ok());
        }
        for value in values {
            assert!(is_refused(&by_email(value).await));
        }
    };
    limiter.scope(scenario).await;
    // Many small values in place of a large one.
    let rule = Rule::new("many", Limit::per_minute(1));
    for many in [vec!["x"; 100_000], vec!["x"; 100_001]] {
        assert!(admits(&limiter, &rule, &Key::of(&many)).await);
        assert!(!admits(&limiter, &rule, &Key::of(&many)).await);
    }

    let keys = keys_of(server, &prefix);
    assert_eq!(keys.len(), values.len() + 2, "one key and one line each: {keys:?}");
    for key in keys {
        assert!(key.len() < 300, "{} bytes", key.len());
        assert!(!key.contains(['{', '}']) && !key.contains(char::is_control), "{key:?}");
        let memory = server.number(&["MEMORY", "USAGE", &key]);
        assert!(memory < 1_000, "{memory} bytes for {key}");
    }
}

#[rate_limit(key = "<ip>", window = "60s", max = 3)]
async fn by_ip(ip: IpAddr) -> Outcome {
    let _ = ip;
    Ok(())
}

/// Whoever has an IPv6 connection has 2⁶⁴ addresses, and with a bucket for each no limit at all.
#[tokio::test]
async fn an_ipv6_subscriber_has_one_bucket() {
    let server = shared();
    let (limiter, prefix) = on_redis(server);
    let scenario = async {
        let mut admitted = 0;
        for host in 0..100_u16 {
            let ip = format!("2001:db8:1:2:{host:x}:{host:x}::{host:x}").parse().unwrap();
            admitted += u32::from(by_ip(ip).await.is_ok());
        }
        assert_eq!(admitted, 3);
        assert!(by_ip("2001:db8:1:3::1".parse().unwrap()).await.is_ok(), "the neighbour has a bucket of its own");
        // One IPv4 address, in the forms it takes on a dual-stack socket and behind translators.
        for ip in ["192.0.2.1", "::ffff:192.0.2.1", "64:ff9b::192.0.2.1"] {
            assert!(by_ip(ip.parse().unwrap()).await.is_ok());
        }
        assert!(is_refused(&by_ip("2002:c000:201::1".parse().unwrap()).await));
    };
    limiter.scope(scenario).await;
    let values: BTreeSet<_> =
        keys_of(server, &prefix).iter().map(|key| key.rsplit_once(":<").unwrap().1.to_owned()).collect();
    assert_eq!(values.len(), 3, "{values:?}");
}

#[rate_limit(key = "<id>", window = "60s", max = quota)]
async fn by_plan(id: u32, quota: u32) -> Outcome {
    let _ = (id, quota);
    Ok(())
}

/// A key that holds `max` gives everybody a fresh quota when the quota changes.
#[tokio::test]
async fn a_changed_quota_keeps_what_was_spent() {
    for (limiter, _clock) in both() {
        let scenario = async {
            for _ in 0..3 {
                assert!(by_plan(1, 3).await.is_ok());
            }
            assert!(is_refused(&by_plan(1, 3).await));
            assert!(by_plan(1, 5).await.is_ok());
            assert!(by_plan(1, 5).await.is_ok());
            assert!(is_refused(&by_plan(1, 5).await));
            assert!(is_refused(&by_plan(1, 2).await));
        };
        limiter.scope(scenario).await;
    }
}
