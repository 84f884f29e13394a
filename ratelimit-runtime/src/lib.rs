#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
mod algorithm;
mod builder;
mod check;
pub mod clock;
#[cfg(feature = "serde")]
mod config;
mod consult;
mod context;
mod decision;
mod error;
pub mod key;
mod limit;
mod limiter;
mod local;
mod name;
mod policy;
#[cfg(feature = "redis")]
mod real_time;
mod refuse;
mod registry;
mod rule;
mod secret;
mod settle;
pub mod store;
#[cfg(feature = "testkit")]
pub mod testkit;
mod wait;

#[cfg(feature = "axum")]
mod axum;

pub use builder::RateLimiterBuilder;
#[cfg(feature = "serde")]
pub use config::ParsePolicyError;
pub use context::{DefaultGuard, Scoped};
pub use decision::{Decision, Source};
pub use error::RateLimitError;
pub use key::{ExactIp, Key, KeyPart, KeyWriter};
pub use limit::{Limit, MAX_COUNT, MAX_WINDOW};
pub use limiter::RateLimiter;
pub use policy::Policy;
pub use refuse::FromRateLimitError;
pub use rule::{Algorithm, MAX_LIMITS, OnUnavailable, Rule};
pub use store::Store;
pub use store::memory::MemoryStore;
#[cfg(feature = "redis")]
pub use store::redis::{LogLayout, RedisStore};

#[cfg(feature = "macros")]
pub use ratelimit_macros::{KeyPart, key, rate_limit};
