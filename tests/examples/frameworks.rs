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

/// Each listens on the loopback address and trusts it as a proxy on the same machine.
#[test]
fn axum_actix_web_and_poem_behave_alike() {
    for name in ["axum", "actix_web", "poem"] {
        let service = Service::started(&mut command(name));
        let search = |term: &str, client: &str, key: &str| {
            get(&service, &format!("/search/{term}"), &[("x-forwarded-for", client), ("x-api-key", key)])
        };
        let (ours, all) = (item("search", &[("q", 10), ("w", 60)]), item("api", &[("q", 100), ("w", 60)]));
        for left in (0..10).rev() {
            let answer = search("tea", "192.0.2.1", "alice");
            assert_eq!((answer.status, answer.body.as_str()), (200, "192.0.2.1 looks for tea"), "{name}");
            assert_eq!(answer.policies, [all.clone(), ours.clone()], "{name}");
            let numbers: Vec<_> =
                answer.standings.iter().map(|(rule, numbers)| (rule.as_str(), numbers[0].1)).collect();
            assert_eq!(numbers, [("api", 90 + left), ("search", left)], "{name}");
        }
        let refused = search("tea", "192.0.2.1", "alice");
        assert_eq!((refused.status, &refused.policies), (429, &vec![all, ours]), "{name}");
        let wait = refused.retry_after.as_deref().and_then(|wait| wait.parse().ok()).expect("seconds");
        assert_eq!(refused.standings[1], item("search", &[("r", 0), ("t", wait)]), "{name}");
        let message = format!("too many requests, try again in {wait}s");
        let body: serde_json::Value = serde_json::from_str(&refused.body).expect("JSON");
        assert_eq!(body, json!({"code": 429, "message": message, "data": null}), "{name}");

        assert_eq!(search("rum", "192.0.2.1", "alice").status, 200, "{name}: another term");
        assert_eq!(search("tea", "192.0.2.2", "alice").status, 200, "{name}: another client");
        assert_eq!(search("tea", "198.51.100.1, 192.0.2.1", "alice").status, 429, "{name}: a forged address");
        let without_key = get(&service, "/search/tea", &[]);
        assert_eq!((without_key.status, without_key.policies.len()), (400, 0), "{name}");
        // Alice has asked 14 times.
        for asked in 14..100 {
            assert_eq!(search(&format!("term{asked}"), "192.0.2.1", "alice").status, 200, "{name}");
        }
        let refused = search("coffee", "192.0.2.1", "alice");
        assert_eq!((refused.status, refused.policies.len()), (429, 1), "{name}: by the layer, without the handler");
        assert_eq!(search("coffee", "192.0.2.1", "bob").status, 200, "{name}: another key");
    }
}
