//! `examples/frameworks`, as clients over HTTP see them.

use serde_json::json;

use crate::seen::{Seen, item};
use crate::{Service, command, exchange};

fn get(service: &Service, path: &str, headers: &[(&str, &str)]) -> Seen {
    let lines: Vec<_> = headers.iter().flat_map(|(name, value)| [*name, ": ", *value, "\r\n"]).collect();
    let reply = exchange(service.port, &format!("GET {path}"), &lines.concat(), "");
    let field = |name: &str| {
        let known = reply.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        known.map(|(_, value)| value.clone()).collect()
    };
    Seen::new(reply.status, field, reply.body.clone())
}

/// The framework listens on the loopback address and takes its word on others, as behind a proxy on
/// the same machine.
fn behave_alike(name: &str) {
    let service = Service::started(&mut command(name));
    let search = |term: &str, client: &str, key: &str| {
        get(&service, &format!("/search/{term}"), &[("x-forwarded-for", client), ("x-api-key", key)])
    };
    let (ours, all) = (item("search", &[("q", 10), ("w", 60)]), item("api", &[("q", 100), ("w", 60)]));
    for left in (0..10).rev() {
        let answer = search("tea", "192.0.2.1", "alice");
        assert_eq!((answer.status, answer.body.as_str()), (200, "192.0.2.1 looks for tea"), "{name}");
        assert_eq!(answer.policies, [all.clone(), ours.clone()], "{name}");
        let numbers: Vec<_> = answer.standings.iter().map(|(name, numbers)| (name.as_str(), numbers[0].1)).collect();
        assert_eq!(numbers, [("api", 90 + left), ("search", left)], "{name}");
        assert_eq!(answer.retry_after, None, "{name}");
    }

    let refused = search("tea", "192.0.2.1", "alice");
    assert_eq!((refused.status, &refused.policies), (429, &vec![all, ours]), "{name}");
    let wait = refused.retry_after.as_deref().and_then(|wait| wait.parse().ok()).expect("seconds");
    assert!((1..=60).contains(&wait), "{name}: Retry-After: {wait}");
    assert_eq!(refused.standings[1], item("search", &[("r", 0), ("t", wait)]), "{name}");
    let message = format!("too many requests, try again in {wait}s");
    let body: serde_json::Value = serde_json::from_str(&refused.body).expect("JSON");
    assert_eq!(body, json!({"code": 429, "message": message, "data": null}), "{name}");

    assert_eq!(search("rum", "192.0.2.1", "alice").status, 200, "{name}: another term");
    assert_eq!(search("tea", "192.0.2.2", "alice").status, 200, "{name}: another client");
    for forged in ["198.51.100.1, 192.0.2.1", "198.51.100.2, 192.0.2.1", "127.0.0.1, 192.0.2.1, 127.0.0.1"] {
        assert_eq!(search("tea", forged, "alice").status, 429, "{name}: {forged}");
    }

    // A request without a key shares no limit: refused, and charged to none.
    for headers in [&[][..], &[("x-api-key", "")], &[("x-api-key", "alice"), ("x-api-key", "bob")]] {
        for _ in 0..101 {
            let answer = get(&service, "/search/tea", headers);
            assert_eq!((answer.status, answer.policies.len()), (400, 0), "{name}");
            assert!(answer.body.contains("x-api-key"), "{name}: {}", answer.body);
        }
    }
    // Alice has asked 16 times.
    for asked in 16..100 {
        assert_eq!(search(&format!("term{asked}"), "192.0.2.1", "alice").status, 200, "{name}");
    }
    let refused = search("coffee", "192.0.2.1", "alice");
    assert_eq!((refused.status, refused.policies.len()), (429, 1), "{name}: by the layer, so the handler is not asked");
    assert_eq!(search("coffee", "192.0.2.1", "bob").status, 200, "{name}: another key");
}

#[test]
fn axum_tells_and_refuses() {
    behave_alike("axum");
}

#[test]
fn actix_web_tells_and_refuses() {
    behave_alike("actix_web");
}

#[test]
fn poem_tells_and_refuses() {
    behave_alike("poem");
}
