//! Functions that do nothing but be limited. Their path is part of the keys, whose length counts:
//! the figures of functions elsewhere do not compare.

#![allow(clippy::unused_async, reason = "the attribute awaits")]

use std::time::Duration;

use ratelimit_runtime::{Decision, Limit, RateLimitError, RateLimiter, Rule, key, rate_limit};

/// The limit of all but [`long`].
pub(crate) const MAX: u64 = 100;
pub(crate) const LONG: u64 = 10_000;
/// The most that a log counts of one call: of more, no store is asked.
pub(crate) const HEAVY: u64 = 1_000;
/// A little more than a unit of [`MAX`] in a minute.
pub(crate) const EVERY: Duration = Duration::from_millis(605);

type Outcome = Result<(), RateLimitError>;

#[rate_limit(key = "<user>", window = "60s", max = 100, algorithm = "leaky_bucket")]
pub(crate) async fn leaky(user: &str) -> Outcome {
    let _ = user;
    Ok(())
}

#[rate_limit(key = "<user>", window = "60s", max = 100)]
pub(crate) async fn sliding(user: &str) -> Outcome {
    let _ = user;
    Ok(())
}

#[rate_limit(key = "<user>", window = "60s", max = 10_000, cost = cost)]
pub(crate) async fn long(user: &str, cost: u64) -> Outcome {
    let _ = user;
    Ok(())
}

#[rate_limit(key = "<user>", window = "60s", max = 100, algorithm = "token_bucket")]
pub(crate) async fn token(user: &str) -> Outcome {
    let _ = user;
    Ok(())
}

#[rate_limit(
    key = "<user>",
    window = "60s",
    max = 100,
    algorithm = "sliding_counter"
)]
pub(crate) async fn counter(user: &str) -> Outcome {
    let _ = user;
    Ok(())
}

#[rate_limit(key = "<user>", window = "60s", max = 100, algorithm = "fixed_window")]
pub(crate) async fn fixed(user: &str) -> Outcome {
    let _ = user;
    Ok(())
}

static BY_HAND: Rule = Rule::new("by_hand", Limit::per_minute(MAX));

/// What [`sliding`] does, written by hand.
pub(crate) async fn by_hand(limiter: &RateLimiter, user: &str) -> Result<Decision, RateLimitError> {
    limiter.acquire(&BY_HAND, &key!("<user>")).await
}
