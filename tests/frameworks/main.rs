//! Decisions over HTTP: header fields, bodies, layers and extractors, in each framework.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]
#![allow(clippy::print_stdout, reason = "for the output of a test that fails")]
#![allow(
    clippy::result_large_err,
    reason = "key functions answer with responses"
)]

mod actix;
mod axum_server;
mod fields;
mod forwarded;
mod layers;
mod poem_server;
mod protocols;
mod proxies;
mod recovered;
mod scopes;
mod seen;
mod servers;
mod table;
mod together;
mod tonic_layers;
mod tonic_methods;
mod tonic_server;

use std::time::Duration;

use ratelimit_runtime::{Limit, RateLimitError, Rule, rate_limit};
use seen::{Item, Seen, item, parsed, policy, standing};

/// The work of all servers in these tests, twice a minute.
#[rate_limit(key = "<user>", window = "60s", max = 2, name = "search")]
async fn search(user: &str) -> Result<String, RateLimitError> {
    Ok(format!("hello {user}"))
}

/// Of layers.
static PER_KEY: Rule = Rule::new("per-key", Limit::new(3, Duration::from_secs(10)));
static PER_IP: Rule = Rule::new("per-ip", Limit::per_minute(1));

/// The body of an answer to a request that has no `x-api-key` to be limited by.
fn without_key(says: &str) -> String {
    format!(r#"{{"code":400,"message":"the header x-api-key {says}","data":null}}"#)
}

struct ApiKey;

impl ratelimit_runtime::NamedHeader for ApiKey {
    const NAME: &'static str = "x-api-key";
}
