//! The guide, in the order in which a service grows.
//!
//! - Begin: [quick start](quick_start), [the attribute](attribute), [algorithms],
//!   [keys and security](keys_and_security), [web services](web_services), [gRPC](grpc).
//! - Further limits: [calls in flight](calls_in_flight), [outgoing calls](outgoing_calls),
//!   [calendar quotas](calendar_quotas), [policies] that operators change.
//! - In production: [Redis](redis), [prefetch], [when Redis fails](failures),
//!   [before production](before_production), [testing], [observability],
//!   [performance].
//! - Coming from something else: [migrating], [questions].
//!
//! Every program in it is run by tests.

/// The definition of a link to a file that the package does not contain: the last lines of a page.
macro_rules! repository {
    ($name:literal => $path:literal) => {
        concat!(
            "\n\n[",
            $name,
            "]: ",
            env!("CARGO_PKG_REPOSITORY"),
            "/",
            $path
        )
    };
}

// Programs are tested where their features are on; the text is there in any case.

#[doc = include_str!("algorithms.md")]
#[doc = repository!("format" => "blob/HEAD/docs/redis_format.md")]
pub mod algorithms {}

#[doc = include_str!("attribute.md")]
#[doc = repository!("expansion" => "blob/HEAD/docs/expansion.md")]
pub mod attribute {}

#[doc = include_str!("before_production.md")]
pub mod before_production {}

#[cfg_attr(
    any(not(doctest), all(feature = "calendar", feature = "macros")),
    doc = include_str!("calendar_quotas.md")
)]
pub mod calendar_quotas {}

#[cfg_attr(
    any(not(doctest), all(feature = "axum", feature = "macros")),
    doc = include_str!("calls_in_flight.md")
)]
pub mod calls_in_flight {}

#[cfg_attr(any(not(doctest), feature = "testkit"), doc = include_str!("failures.md"))]
#[doc = repository!("runs" => "blob/HEAD/tests/faults/RESULTS.md")]
pub mod failures {}

#[cfg_attr(
    any(not(doctest), all(feature = "macros", feature = "tonic")),
    doc = include_str!("grpc.md")
)]
pub mod grpc {}

#[cfg_attr(
    any(not(doctest), all(feature = "axum", feature = "macros")),
    doc = include_str!("keys_and_security.md")
)]
pub mod keys_and_security {}

#[cfg_attr(any(not(doctest), feature = "macros"), doc = include_str!("migrating.md"))]
pub mod migrating {}

#[cfg_attr(
    any(not(doctest), all(feature = "axum", feature = "macros", feature = "metrics")),
    doc = include_str!("observability.md")
)]
#[doc = repository!("alerts" => "blob/HEAD/docs/prometheus-alerts.yml")]
#[doc = repository!("dashboard" => "blob/HEAD/docs/grafana-dashboard.json")]
#[doc = repository!("replay" => "tree/HEAD/ratelimit-admin")]
pub mod observability {}

#[doc = include_str!("outgoing_calls.md")]
#[doc = repository!("outbound" => "tree/HEAD/examples/outbound")]
pub mod outgoing_calls {}

#[doc = include_str!("performance.md")]
#[doc = repository!("chart" => "raw/HEAD/docs/performance.svg")]
#[doc = repository!("results" => "blob/HEAD/benches/peers/RESULTS.md")]
pub mod performance {}

#[cfg_attr(any(not(doctest), feature = "macros"), doc = include_str!("policies.md"))]
#[doc = repository!("policies" => "tree/HEAD/examples/policies")]
pub mod policies {}

#[doc = include_str!("prefetch.md")]
#[cfg_attr(
    any(not(doctest), feature = "redis"),
    doc = concat!("```no_run\n", include_str!("prefetch_program.rs"), "```\n")
)]
#[doc = "Next: [When Redis fails](crate::guide::failures)."]
pub mod prefetch {}

#[cfg_attr(
    any(not(doctest), all(feature = "axum", feature = "macros")),
    doc = include_str!("questions.md")
)]
#[doc = repository!("admin" => "tree/HEAD/ratelimit-admin")]
pub mod questions {}

#[cfg_attr(
    any(not(doctest), all(feature = "macros", feature = "redis")),
    doc = include_str!("quick_start.md")
)]
pub mod quick_start {}

#[cfg_attr(
    any(not(doctest), all(feature = "redis", feature = "redis-tls")),
    doc = include_str!("redis.md")
)]
#[doc = repository!("format" => "blob/HEAD/docs/redis_format.md")]
pub mod redis {}

#[cfg_attr(
    any(not(doctest), all(feature = "calendar", feature = "macros", feature = "testkit")),
    doc = include_str!("testing.md")
)]
#[doc = repository!("custom_store" => "tree/HEAD/examples/custom_store")]
pub mod testing {}

#[cfg_attr(
    any(not(doctest), all(feature = "axum", feature = "macros")),
    doc = include_str!("web_services.md")
)]
#[doc = repository!("frameworks" => "tree/HEAD/examples/frameworks")]
pub mod web_services {}
