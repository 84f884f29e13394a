//! [`Policy`]: limits that a rule refers to by name, set up on the limiter instead of in the code.

use std::collections::HashMap;
use std::time::Duration;

use smallvec::SmallVec;

use super::algorithm::Algorithm;
use super::block::BlockDuration;
use super::limit::{Limit, MAX_LIMITS};

/// The limits of a rule with `policy = "…"`. They can be replaced while running: see
/// [`RateLimiter::set_policies`](crate::RateLimiter::set_policies).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    pub(crate) algorithm: Algorithm,
    pub(crate) limits: SmallVec<[Limit; 2]>,
    pub(crate) block: BlockDuration,
}

impl Policy {
    /// A policy of one limit, as an exact sliding window.
    #[must_use]
    pub fn new(limit: Limit) -> Self {
        Self { algorithm: Algorithm::default(), limits: SmallVec::from_slice(&[limit]), block: BlockDuration::NONE }
    }

    /// One more limit on the same key; a call is charged to all of them, or to none.
    #[must_use]
    pub fn and(mut self, limit: Limit) -> Self {
        self.limits.push(limit);
        self
    }

    /// How the limits are kept.
    #[must_use]
    pub fn with_algorithm(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = algorithm;
        self
    }

    /// Once the limits refuse a key, refuse it for this long.
    #[must_use]
    pub fn with_block(mut self, block: Duration) -> Self {
        self.block = BlockDuration::fixed(block);
        self
    }

    /// Once the limits refuse a key, refuse it for `first`, and with each further offence for twice
    /// as long, up to `longest`: see [`Rule::with_growing_block`](crate::Rule::with_growing_block).
    ///
    /// # Panics
    ///
    /// Unless `first` is above zero, and `longest` above `first` and at most
    /// [`Limit::MAX_WINDOW`].
    #[must_use]
    pub fn with_growing_block(mut self, first: Duration, longest: Duration) -> Self {
        assert!(
            BlockDuration::is_range(first, longest),
            "a block grows from more than 0 to something longer, at most 366 days"
        );
        self.block = BlockDuration::growing(first, longest);
        self
    }
}

impl Policy {
    /// The limits, in the order in which they were given.
    #[must_use]
    pub fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// How the limits are kept.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// For how long a key is refused once its limits have refused it, the first time if the block
    /// grows; zero for not at all.
    #[must_use]
    pub fn block(&self) -> Duration {
        self.block.first()
    }

    /// What the block grows to; [`block`](Self::block) where it does not grow.
    #[must_use]
    pub fn longest_block(&self) -> Duration {
        self.block.longest()
    }
}

/// The policies of a limiter, by name.
pub(crate) type Policies = HashMap<String, Policy>;

/// The policies by name; an error message if one of them cannot be used.
pub(crate) fn checked(policies: impl IntoIterator<Item = (impl Into<String>, Policy)>) -> Result<Policies, String> {
    let mut checked = Policies::new();
    for (name, policy) in policies {
        let name = name.into();
        if policy.limits.len() > MAX_LIMITS {
            let limits = policy.limits.len();
            return Err(format!("the policy `{name}` has {limits} limits, and at most {MAX_LIMITS} are possible"));
        }
        if checked.insert(name.clone(), policy).is_some() {
            return Err(format!("the policy `{name}` is defined twice"));
        }
    }
    Ok(checked)
}
