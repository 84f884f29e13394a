//! Replaces the policies of a limiter, after checking that its store can keep the new ones.

#[cfg(feature = "watch")]
mod file;
#[cfg(feature = "watch")]
pub(super) mod watch;

use std::iter;

use crate::engine::Engine;
use crate::error::{RateLimitError, StoreError};
use crate::rule::{Policies, Policy, checked};
use crate::store::Request;

/// Replaces the policies, if the store can keep all of them and none that is in use is missing.
pub(super) fn replace(
    engine: &Engine,
    policies: impl IntoIterator<Item = (impl Into<String>, Policy)>,
) -> Result<(), RateLimitError> {
    let policies = checked(policies).map_err(RateLimitError::misconfigured)?;
    supports(engine, &policies)?;
    let replaced = engine.policies.replace(policies, &engine.capabilities);
    replaced.map_err(|why| {
        RateLimitError::misconfigured(format!("{why}; the old set stays in force"))
    })?;
    // What was taken ahead under other limits.
    engine.give_back();
    Ok(())
}

fn supports(engine: &Engine, policies: &Policies) -> Result<(), RateLimitError> {
    for (name, policy) in policies {
        let overridden = policy
            .overrides
            .values()
            .map(|values| policy.limits_of(values));
        for limits in iter::once(policy.limits.clone()).chain(overridden) {
            let request = Request {
                algorithm: policy.algorithm(),
                limits: &limits,
                block: policy.block,
                ..Request::PLAIN
            };
            if let Err(error) = engine.supports(&request) {
                let message = format!("the store cannot keep the policy `{name}`: {error}");
                return Err(StoreError::new(error.kind(), message).into());
            }
        }
    }
    Ok(())
}
