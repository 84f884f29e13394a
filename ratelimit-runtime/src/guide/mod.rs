//! The guide, for reading from top to bottom:
//!
//! 1. [Quick start](quick_start): a limit, what a refusal is, Redis, a web handler.
//! 2. [Choosing an algorithm](choosing_an_algorithm): what each admits around the edge of a window,
//!   and what it takes.
//! 3. [Keys and security](keys_and_security): by whom calls are counted, and how attackers try to
//!   be somebody else.
//! 4. [Web services](web_services): layers, proxies, browsers, 400 and 401, what a refused client
//!   reads.
//! 5. [gRPC](grpc): keys from the requests of tonic, what a client makes of a refusal.
//! 6. [Calls in flight](calls_in_flight): how many there are at a time, and work that is spawned.
//! 7. [Calendar quotas](calendar_quotas): 500 a day, from midnight to midnight in a time zone.
//! 8. [When the store fails](when_the_store_fails): who answers meanwhile, and how long a call
//!   waits.
//! 9. [Testing your limits](testing): a clock that stands still, a limiter per test, a store that
//!   fails.
//! 10. [Redis, Sentinel, Cluster](redis): URLs, settings, what a cluster changes.
//! 11. [Before production](before_production): ten things to decide.
//! 12. [Policies](policies): what operators decide while a service runs.
//! 13. [Observing](observing): the log, decisions, metrics.
//! 14. [Migrating](migrating): from the scripts of articles, from other libraries.
//! 15. [Questions](questions): the traps that limiters have, and where they are here.
//!
//! And for looking things up, the [reference](mod@reference).
//!
//! Every program in it is run by the tests of this crate.

/// The definition of a link to what the package does not contain: the last lines of a page.
macro_rules! repository {
    ($name:literal => $path:literal) => {
        concat!("\n\n[", $name, "]: ", env!("CARGO_PKG_REPOSITORY"), "/", $path)
    };
}

pub mod reference;

// Programs are tested where their features are on; the text is there in any case.

#[doc = include_str!("before_production.md")]
pub mod before_production {}

#[cfg_attr(
    any(not(doctest), all(feature = "calendar", feature = "macros", feature = "testkit")),
    doc = include_str!("calendar_quotas.md")
)]
pub mod calendar_quotas {}

#[cfg_attr(any(not(doctest), feature = "macros"), doc = include_str!("calls_in_flight.md"))]
pub mod calls_in_flight {}

#[doc = include_str!("choosing_an_algorithm.md")]
pub mod choosing_an_algorithm {}

#[cfg_attr(any(not(doctest), all(feature = "macros", feature = "tonic")), doc = include_str!("grpc.md"))]
#[doc = repository!("frameworks" => "tree/HEAD/examples/frameworks")]
pub mod grpc {}

#[cfg_attr(any(not(doctest), all(feature = "axum", feature = "macros")), doc = include_str!("keys_and_security.md"))]
pub mod keys_and_security {}

#[cfg_attr(any(not(doctest), feature = "macros"), doc = include_str!("migrating.md"))]
pub mod migrating {
    #[cfg_attr(
        any(not(doctest), all(feature = "actix-web", feature = "axum", feature = "macros", feature = "serde")),
        doc = include_str!("migrating_from_libraries.md")
    )]
    pub mod from_libraries {}

    #[cfg_attr(
        any(not(doctest), all(feature = "axum", feature = "macros", feature = "redis")),
        doc = include_str!("migrating_from_scripts.md")
    )]
    pub mod from_scripts {}
}

#[cfg_attr(any(not(doctest), feature = "macros"), doc = include_str!("observing.md"))]
#[doc = repository!("replay" => "tree/HEAD/examples/ratelimit-admin")]
pub mod observing {}

#[cfg_attr(any(not(doctest), feature = "macros"), doc = include_str!("policies.md"))]
#[doc = repository!("policies" => "tree/HEAD/examples/policies")]
pub mod policies {}

#[cfg_attr(any(not(doctest), all(feature = "axum", feature = "macros")), doc = include_str!("questions.md"))]
#[doc = repository!("admin" => "tree/HEAD/examples/ratelimit-admin")]
pub mod questions {}

#[cfg_attr(
    any(not(doctest), all(feature = "axum", feature = "macros", feature = "redis", feature = "serde")),
    doc = include_str!("quick_start.md")
)]
pub mod quick_start {}

#[cfg_attr(any(not(doctest), all(feature = "redis", feature = "redis-tls")), doc = include_str!("redis.md"))]
pub mod redis {}

#[cfg_attr(any(not(doctest), all(feature = "macros", feature = "testkit")), doc = include_str!("testing.md"))]
#[doc = repository!("custom_store" => "tree/HEAD/examples/custom_store")]
pub mod testing {}

#[cfg_attr(any(not(doctest), all(feature = "axum", feature = "macros")), doc = include_str!("web_services.md"))]
#[doc = repository!("frameworks" => "tree/HEAD/examples/frameworks")]
pub mod web_services {}

#[cfg_attr(
    any(not(doctest), all(feature = "macros", feature = "testkit")),
    doc = include_str!("when_the_store_fails.md")
)]
pub mod when_the_store_fails {}
