//! `examples/frameworks`, as clients over HTTP see them.

use crate::{Service, command, exchange};

/// Each listens on the loopback address and trusts it as a proxy on the same machine.
#[test]
fn axum_actix_web_and_poem_limit_by_client_term_and_key() {
    for name in ["axum", "actix_web", "poem"] {
        let service = Service::started(&mut command(name));
        let search = |term: &str, client: &str, key: &str| {
            let fields = format!("x-forwarded-for: {client}\r\nx-api-key: {key}\r\n");
            exchange(service.port, &format!("GET /search/{term}"), &fields, "")
        };
        for _ in 0..10 {
            let answer = search("tea", "192.0.2.1", "alice");
            assert_eq!(
                (answer.status, answer.body.as_str()),
                (200, "192.0.2.1 looks for tea"),
                "{name}"
            );
        }
        assert_eq!(search("tea", "192.0.2.1", "alice").status, 429, "{name}");
        assert_eq!(
            search("rum", "192.0.2.1", "alice").status,
            200,
            "{name}: another term"
        );
        assert_eq!(
            search("tea", "192.0.2.2", "alice").status,
            200,
            "{name}: another client"
        );
        // Alice has asked 13 times.
        for asked in 13..100 {
            assert_eq!(
                search(&format!("term{asked}"), "192.0.2.1", "alice").status,
                200,
                "{name}"
            );
        }
        assert_eq!(
            search("coffee", "192.0.2.1", "alice").status,
            429,
            "{name}: by the layer"
        );
        assert_eq!(
            search("coffee", "192.0.2.1", "bob").status,
            200,
            "{name}: another key"
        );
    }
}
