//! Decisions over HTTP: header fields, bodies, layers and extractors, in each framework.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]
#![allow(clippy::result_large_err, reason = "key functions answer with responses")]

mod actix;
mod axum_server;
mod clients;
mod endless;
mod exposed;
mod fields;
mod forwarded;
mod in_place;
mod poem_server;
mod protocols;
mod proxies;
mod recovered;
mod resolved;
mod scopes;
mod seen;
mod strangers;
mod tonic_between;
mod tonic_methods;
mod tonic_server;

use std::time::Duration;

use ratelimit_runtime::{Limit, RateLimitError, Rule, rate_limit};
use seen::{Item, Seen, item, parsed};

/// What all servers of these tests do: twice a minute.
#[rate_limit(key = "<user>", window = "60s", max = 2, name = "search")]
async fn search(user: &str) -> Result<String, RateLimitError> {
    Ok(format!("hello {user}"))
}

/// Of layers.
static PER_KEY: Rule = Rule::new("per-key", Limit::new(3, Duration::from_secs(10)));
static PER_IP: Rule = Rule::new("per-ip", Limit::per_minute(1));

/// The answers to three searches of alice.
fn assert_searches(answers: &[Seen; 3]) {
    let policies = vec![item("search", &[("q", 2), ("w", 60)])];
    for (left, answer) in [1, 0].into_iter().zip(answers) {
        let standings = vec![item("search", &[("r", left), ("t", 60)])];
        let expected = Seen {
            status: 200,
            policies: policies.clone(),
            standings,
            retry_after: None,
            no_store: false,
            exposed: Vec::new(),
            body: "hello alice".to_owned(),
        };
        assert_eq!(*answer, expected);
    }
    let refused = Seen {
        status: 429,
        policies,
        standings: vec![item("search", &[("r", 0), ("t", 60)])],
        retry_after: Some("60".to_owned()),
        no_store: true,
        exposed: Vec::new(),
        body: r#"{"code":429,"message":"too many requests, try again in 60s","data":null}"#.to_owned(),
    };
    assert_eq!(answers[2], refused);
}

/// The body of an answer to a request that has no `x-api-key` to be limited by.
fn without_key(says: &str) -> String {
    format!(r#"{{"code":400,"message":"the header x-api-key {says}","data":null}}"#)
}

/// The answers of a layer with [`PER_KEY`] around [`search`]: a request without a key, one of alice
/// and one of bob.
fn assert_per_key([missing, alice, bob]: [Seen; 3]) {
    assert_eq!((missing.status, missing.body), (400, without_key("is missing")));
    assert!(missing.policies.is_empty() && missing.standings.is_empty() && missing.no_store);
    for (answer, user) in [(alice, "alice"), (bob, "bob")] {
        assert_eq!((answer.status, answer.body), (200, format!("hello {user}")));
        assert_eq!(answer.policies, [item("per-key", &[("q", 3), ("w", 10)]), item("search", &[("q", 2), ("w", 60)])]);
        assert_eq!(answer.standings, [item("per-key", &[("r", 2), ("t", 10)]), item("search", &[("r", 1), ("t", 60)])]);
    }
}

/// What a layer with [`PER_IP`] that trusts `10.0.0.0/8` says to requests from these peers, with
/// these forwarded addresses.
const PER_IP_ANSWERS: [(&str, &str, u16); 5] = [
    ("9.9.9.9", "1.1.1.1", 200),
    // A header that anybody can send gives no other budget.
    ("9.9.9.9", "1.1.1.2", 429),
    ("10.0.0.1", "9.9.9.9", 429),
    ("10.0.0.1", "8.8.8.8", 200),
    ("10.0.0.1", "1.1.1.3, 8.8.8.8", 429),
];

struct ApiKey;

impl ratelimit_runtime::NamedHeader for ApiKey {
    const NAME: &'static str = "x-api-key";
}
