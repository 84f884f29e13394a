#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
mod adapter;
mod algorithm;
pub mod clock;
mod decision;
mod engine;
mod error;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod key;
mod limiter;
pub mod observe;
mod real_time;
mod rule;
pub mod store;
#[cfg(feature = "testkit")]
pub mod testkit;

pub use adapter::FromRateLimitError;
pub use decision::{Decision, Source};
pub use error::RateLimitError;
pub use key::{ExactIp, InvalidKey, Key, KeyPart, KeyWriter};
pub use limiter::{DefaultGuard, RateLimiter, RateLimiterBuilder, Scoped};
pub use rule::{
    Algorithm, InvalidLimit, Limit, MAX_COUNT, MAX_LIMITS, MAX_WINDOW, OnUnavailable, ParseError, Policy, Rule,
};
pub use store::Store;
pub use store::memory::MemoryStore;
#[cfg(feature = "redis")]
pub use store::redis::{LogLayout, RedisCredentials, RedisStore};

#[cfg(feature = "macros")]
pub use ratelimit_macros::{KeyPart, key, rate_limit};
