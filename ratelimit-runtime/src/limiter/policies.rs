//! Replaces the policies of a limiter, after checking that its store can keep the new ones.

use std::sync::Arc;

use crate::engine::Engine;
use crate::error::{RateLimitError, StoreError};
use crate::rule::{Policies, Policy, checked};
use crate::store::{Request, Store as _};

/// Replaces the policies, if the store can keep all of them.
pub(super) fn replace(
    engine: &Engine,
    policies: impl IntoIterator<Item = (impl Into<String>, Policy)>,
) -> Result<(), RateLimitError> {
    let policies = checked(policies).map_err(RateLimitError::misconfigured)?;
    supported(engine, &policies)?;
    engine.policies.store(Arc::new(policies));
    Ok(())
}

fn supported(engine: &Engine, policies: &Policies) -> Result<(), RateLimitError> {
    for (name, policy) in policies {
        let request = Request::new(b"", policy.algorithm(), policy.limits()).with_block(policy.block());
        if let Err(error) = supported_by(engine, &request) {
            let message = format!("the store cannot keep the policy `{name}`: {error}");
            return Err(StoreError::new(error.kind(), message).into());
        }
    }
    Ok(())
}

fn supported_by(engine: &Engine, request: &Request<'_>) -> Result<(), StoreError> {
    if engine.covers(request) { engine.store.supports(request) } else { Err(engine.lacks(request)) }
}
