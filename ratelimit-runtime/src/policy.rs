//! [`Policy`]: limits by name, from the limiter instead of the code.

use std::collections::HashMap;
use std::time::Duration;

use smallvec::SmallVec;

use crate::error::RateLimitError;
use crate::limit::Limit;
use crate::rule::{Algorithm, MAX_LIMITS};

/// What a rule with `policy = "…"` is held to. Replaceable while running: see
/// [`RateLimiter::set_policies`](crate::RateLimiter::set_policies).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    pub(crate) algorithm: Algorithm,
    pub(crate) limits: SmallVec<[Limit; 2]>,
    pub(crate) block: Duration,
}

impl Policy {
    /// A policy of one limit, as an exact sliding window.
    #[must_use]
    pub fn new(limit: Limit) -> Self {
        Self { algorithm: Algorithm::default(), limits: SmallVec::from_slice(&[limit]), block: Duration::ZERO }
    }

    /// One more limit on the same key; a call is charged to all of them, or to none.
    #[must_use]
    pub fn and(mut self, limit: Limit) -> Self {
        self.limits.push(limit);
        self
    }

    /// How the limits are kept.
    #[must_use]
    pub fn algorithm(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = algorithm;
        self
    }

    /// Once the limits refuse a key, refuse it for this long.
    #[must_use]
    pub fn block(mut self, block: Duration) -> Self {
        self.block = block;
        self
    }
}

/// The policies of a limiter, by name.
pub(crate) type Policies = HashMap<String, Policy>;

pub(crate) fn checked(
    policies: impl IntoIterator<Item = (impl Into<String>, Policy)>,
) -> Result<Policies, RateLimitError> {
    let mut checked = Policies::new();
    for (name, policy) in policies {
        let name = name.into();
        if policy.limits.len() > MAX_LIMITS {
            return Err(RateLimitError::misconfigured(format!(
                "the policy `{name}` has {} limits, and at most {MAX_LIMITS} are possible",
                policy.limits.len()
            )));
        }
        if checked.insert(name.clone(), policy).is_some() {
            return Err(RateLimitError::misconfigured(format!("the policy `{name}` is defined twice")));
        }
    }
    Ok(checked)
}
