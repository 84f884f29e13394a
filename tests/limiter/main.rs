//! The limiter: by hand, its policies, what it does without its store, and how it is found.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]
#![allow(clippy::print_stdout, reason = "for the output of a test that fails")]

#[path = "../support/mod.rs"]
mod support;

mod alike;
mod byhand;
mod cancellation;
mod finding;
mod injective;
mod keys;
mod outage;
mod policies;
mod several;
mod shadow;
mod watching;

use std::time::Duration;

use crate::support::redis::shared;
use crate::support::{strict, unique};
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Algorithm, Key, MemoryStore, RateLimiter, RateLimiterBuilder, key};

const ALGORITHMS: &[Algorithm] = ratelimit_conformance::ALGORITHMS;

const MINUTE: Duration = Duration::from_secs(60);

fn in_memory(clock: &FakeClock) -> RateLimiterBuilder {
    strict().store(MemoryStore::new().with_clock(clock.clone()))
}

fn on_redis(clock: &FakeClock, prefix: &str) -> RateLimiterBuilder {
    strict()
        .store(shared().store().with_clock(clock.clone()))
        .prefix(prefix)
}

/// In memory and on Redis, with readable keys and with hashed ones. Each is printed, for the
/// output of a test that fails.
fn everywhere(clock: &FakeClock) -> impl Iterator<Item = RateLimiter> + use<> {
    let (plain, hashed) = (unique("byhand"), unique("byhand"));
    let limiters = [
        ("memory", in_memory(clock)),
        (
            "memory, prefix and hashed keys",
            in_memory(clock).prefix("shop:prod").hash_keys("secret"),
        ),
        ("Redis", on_redis(clock, &plain)),
        (
            "Redis, hashed keys",
            on_redis(clock, &hashed).hash_keys("secret"),
        ),
    ];
    limiters.into_iter().map(|(place, builder)| {
        println!("{place}:");
        builder.build().unwrap()
    })
}

fn alice() -> Key {
    let (tenant, email) = ("acme", "alice@example.com");
    key!("<tenant>/<email>")
}

fn bob() -> Key {
    let (tenant, email) = ("acme", "bob@example.com");
    key!("<tenant>/<email>")
}
