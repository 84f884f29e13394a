//! [`Asked`]: a check, and the engine that answers it.

use std::sync::Arc;
use std::time::Duration;

use super::check::{Check, OwnedCheck};
use super::parts::Engine;
use crate::decision::Charge;
use crate::error::RateLimitError;
use crate::store::{Answer, Feature, Request, Store};

/// A check with its engine.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(super) engine: Arc<Engine>,
    check: OwnedCheck,
}

impl Asked {
    #[inline]
    pub(crate) fn new(engine: Arc<Engine>, check: &Check<'_>) -> Self {
        Self { engine, check: OwnedCheck::new(check) }
    }

    pub(super) fn check(&self) -> Check<'_> {
        self.check.as_check()
    }

    /// How long the check may take.
    pub(super) fn timeout(&self) -> Duration {
        self.check().terms.timeout.unwrap_or(self.engine.timeout)
    }

    /// Whether the charge was a reservation.
    pub(crate) fn reserves(&self) -> bool {
        self.check().reservation
    }

    /// The request that a store gets to change something about the key.
    pub(crate) fn key_request(&self) -> Result<Request<'_>, RateLimitError> {
        self.check().key_request()
    }

    /// Whether the store has a feature, or the error that says that it does not.
    pub(crate) fn require(&self, feature: Feature) -> Result<(), RateLimitError> {
        Ok(self.engine.capabilities.require(self.check().terms.algorithm(), feature)?)
    }

    /// Calls `what` on the store that made the charge, be it the engine's or the fallback; `None` if nothing was charged.
    pub(super) fn charged_by<'a, T>(
        &'a self,
        charge: Charge,
        what: impl FnOnce(&'a (dyn Store + 'static), Request<'a>, u64) -> Answer<'a, T>,
    ) -> Result<Option<Answer<'a, T>>, RateLimitError> {
        let (store, ticket): (&dyn Store, u64) = match charge {
            Charge::None => return Ok(None),
            Charge::Store(ticket) => (&*self.engine.store, ticket),
            Charge::Fallback(ticket) => (self.engine.fallback.store(), ticket),
        };
        Ok(Some(what(store, self.check().key_request()?, ticket)))
    }
}
