// The README's links are for a repository and a registry. The first definition of a name counts:
// here they lead to the pages of this build, and to the repository.
#![cfg_attr(not(doctest), doc = include_str!("guide/readme_links.md"))]
#![cfg_attr(not(doctest), doc = concat!(
    "\n[zh]: ", env!("CARGO_PKG_REPOSITORY"), "/blob/HEAD/README.zh-CN.md",
    "\n[picture]: ", env!("CARGO_PKG_REPOSITORY"), "/raw/HEAD/docs/playground.png",
    "\n[format]: ", env!("CARGO_PKG_REPOSITORY"), "/blob/HEAD/docs/redis_format.md",
    "\n[expansion]: ", env!("CARGO_PKG_REPOSITORY"), "/blob/HEAD/docs/expansion.md",
    "\n[performance-picture]: ", env!("CARGO_PKG_REPOSITORY"), "/raw/HEAD/docs/performance.svg",
    "\n[examples]: ", env!("CARGO_PKG_REPOSITORY"), "/tree/HEAD/examples",
    "\n[admin]: ", env!("CARGO_PKG_REPOSITORY"), "/tree/HEAD/ratelimit-admin",
    "\n[frameworks]: ", env!("CARGO_PKG_REPOSITORY"), "/tree/HEAD/examples/frameworks",
    "\n[changelog]: ", env!("CARGO_PKG_REPOSITORY"), "/blob/HEAD/CHANGELOG.md",
    "\n[contributing]: ", env!("CARGO_PKG_REPOSITORY"), "/blob/HEAD/CONTRIBUTING.md",
    "\n[security]: ", env!("CARGO_PKG_REPOSITORY"), "/blob/HEAD/SECURITY.md",
    "\n[mit]: ", env!("CARGO_PKG_REPOSITORY"), "/blob/HEAD/LICENSE-MIT",
    "\n[apache]: ", env!("CARGO_PKG_REPOSITORY"), "/blob/HEAD/LICENSE-APACHE",
))]
// The README's programs are tested where the features that they use are on.
#![cfg_attr(
    any(not(doctest), all(feature = "axum", feature = "macros", feature = "redis", feature = "serde")),
    doc = include_str!("../README.md")
)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    not(feature = "_tests"),
    allow(unnameable_types, unreachable_pub, reason = "tests name more of it")
)]

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
/// `__private` for expansions that are told where this crate is, so that errors about that name it.
#[doc(hidden)]
pub use self::__private as __ratelimit_runtime;
mod adapter;
mod algorithm;
#[cfg(feature = "http")]
mod client_ip;
pub mod clock;
mod decision;
mod engine;
mod error;
#[cfg(doc)]
pub mod guide;
mod key;
mod limiter;
pub mod observe;
mod pace;
mod parse_error;
#[cfg(feature = "http")]
mod response;
mod rule;
pub mod store;
#[cfg(feature = "testkit")]
pub mod testkit;

/// The types that name a [`RateLimitLayer`], and the services that it makes.
#[cfg(feature = "_layer")]
#[cfg_attr(
    docsrs,
    doc(cfg(any(feature = "actix-web", feature = "poem", feature = "tower")))
)]
pub mod layer {
    #[cfg(feature = "actix-web")]
    pub use crate::adapter::actix_web::RateLimitMiddleware;
    #[cfg(feature = "tonic")]
    pub use crate::adapter::layer::Grpc;
    pub use crate::adapter::layer::{Http, Limited, Unlimited};
    #[cfg(feature = "poem")]
    pub use crate::adapter::poem::RateLimitEndpoint;
    #[cfg(feature = "tower")]
    pub use crate::adapter::tower::RateLimitService;
}

#[cfg(feature = "_layer")]
#[cfg_attr(
    docsrs,
    doc(cfg(any(feature = "actix-web", feature = "poem", feature = "tower")))
)]
pub use self::{adapter::layer::RateLimitLayer, client_ip::by_client_ip};
pub use adapter::FromRateLimitError;
#[cfg(feature = "http")]
pub use adapter::{HeaderKey, NamedHeader};
#[cfg(feature = "http")]
pub use client_ip::{ClientIp, TrustedProxies};
pub use decision::{Decision, Source};
pub use error::RateLimitError;
pub use key::{ExactIp, Key, KeyKind, KeyPart, KeyWriter};
pub use limiter::{
    DefaultGuard, Keys, Permit, RateLimiter, RateLimiterBuilder, Reservation, Scoped,
};
pub use parse_error::ParseError;
#[cfg(feature = "http")]
pub use response::{KeyRejection, Refusal, Responses};
pub use rule::{
    Algorithm, CalendarUnit, Limit, OnUnavailable, Override, Policy, Rule, RuleSummary,
};
pub use store::Store;
pub use store::memory::MemoryStore;
#[cfg(feature = "redis")]
pub use store::redis::{RedisCredentials, RedisMode, RedisStore};

#[cfg(feature = "macros")]
pub use ratelimit_macros::{KeyPart, key, rate_limit};
