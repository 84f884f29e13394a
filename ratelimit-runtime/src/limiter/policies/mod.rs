//! Replaces the policies of a limiter, after checking that its store can keep the new ones.

#[cfg(feature = "watch")]
pub(super) mod file;
#[cfg(feature = "watch")]
pub(super) mod watch;

use std::iter;

use crate::engine::Engine;
use crate::error::{RateLimitError, StoreError};
use crate::rule::{Policies, Policy, checked};
use crate::store::Reserves;

/// Replaces the policies, if the store supports all of them and none in use is missing.
pub(super) fn replace(
    engine: &Engine,
    policies: impl IntoIterator<Item = (impl Into<String>, Policy)>,
) -> Result<(), RateLimitError> {
    let policies = checked(policies).map_err(RateLimitError::misconfigured)?;
    supports(engine, &policies)?;
    let replaced = engine.registry.replace(policies);
    replaced.map_err(|why| {
        RateLimitError::misconfigured(format!("{why}; the old set stays in force"))
    })?;
    // What was taken ahead under other limits.
    engine.give_back();
    Ok(())
}

fn supports(engine: &Engine, policies: &Policies) -> Result<(), RateLimitError> {
    for (name, policy) in policies {
        let overridden = policy.overrides.values();
        let overridden = overridden.map(|values| policy.terms.with_override(values));
        for terms in iter::once(policy.terms).chain(overridden) {
            if let Err(error) = engine.supports(&terms, Reserves::Nothing) {
                let message = format!("the store cannot keep the policy `{name}`: {error}");
                return Err(StoreError::new(error.kind(), message).into());
            }
        }
    }
    Ok(())
}
