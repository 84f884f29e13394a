//! This crate, by hand.

use std::time::Duration;

use ratelimit_runtime::{Algorithm, Limit, OnUnavailable, RateLimitError, RateLimiter, Rule, key};

use crate::Failure;
use crate::server::Server;
use crate::work::Rate;

const TIMEOUT: Duration = Duration::from_secs(1);

/// The lease of `prefetch`, where the window is long enough for it.
pub const LEASE: Duration = Duration::from_millis(100);

/// How many times a window has to be as long as a lease.
const LEASES: u32 = 50;

pub struct Ours {
    limiter: RateLimiter,
    rule: Rule,
}

impl Ours {
    /// On a connection of its own.
    pub async fn with_rule(server: &Server, rule: Rule) -> Result<Self, Failure> {
        // What Redis did not answer is a failure here, never a figure; but a machine that others
        // use may pause it.
        let limiter = RateLimiter::builder()
            .redis(&server.url())
            .timeout(TIMEOUT)
            .on_unavailable(OnUnavailable::Deny);
        let limiter = limiter.build()?;
        limiter.ready().await?;
        Ok(Self { limiter, rule })
    }

    pub async fn on_redis(
        server: &Server,
        algorithm: Algorithm,
        rate: Rate,
    ) -> Result<Self, Failure> {
        Self::with_rule(server, rule(algorithm, rate)).await
    }

    pub fn in_memory(algorithm: Algorithm, rate: Rate) -> Self {
        Self {
            limiter: RateLimiter::memory(),
            rule: rule(algorithm, rate),
        }
    }

    pub async fn admits(&self, user: &str) -> Result<bool, Failure> {
        match self.limiter.acquire(&self.rule, &key!("<user>")).await {
            Ok(_) => Ok(true),
            Err(RateLimitError::Exceeded(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// One limit.
pub fn rule(algorithm: Algorithm, rate: impl Into<Rate>) -> Rule {
    let Rate { max, window } = rate.into();
    Rule::new("rate", Limit::new(max.into(), window)).with_algorithm(algorithm)
}

/// The same with `prefetch`.
pub fn prefetching(algorithm: Algorithm, rate: Rate) -> Rule {
    rule(algorithm, rate).with_prefetch(LEASE.min(rate.window / LEASES))
}
