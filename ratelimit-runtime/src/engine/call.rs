//! [`OwnedCall`]: a check with its engine, to be kept across an `.await`. It asks the store, within
//! the timeout of the check.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::check::{Check, OwnedCheck, PlaceCheck};
use super::outage::OutageAnswer;
use super::state::Engine;
use super::time_limit::TimeLimit;
use crate::decision::{Decision, Receipt};
use crate::error::{RateLimitError, StoreError};
use crate::observe;
use crate::store::{Answer, Feature, Request, Store};

/// A check with its engine.
#[derive(Debug, Clone)]
pub(crate) struct OwnedCall {
    pub(super) engine: Arc<Engine>,
    check: OwnedCheck,
    /// Where calls in flight are limited.
    place: Option<Arc<PlaceCheck>>,
}

impl OwnedCall {
    #[inline]
    pub(crate) fn new(engine: Arc<Engine>, check: &Check<'_>) -> Self {
        Self { engine, check: OwnedCheck::new(check), place: None }
    }

    /// The same, which takes this place as well.
    pub(crate) fn with_place(self, place: Option<PlaceCheck>) -> Self {
        let limits = self.check().terms.limits().len();
        Self { place: place.map(|place| Arc::new(place.after_limits(limits))), ..self }
    }

    pub(super) fn place(&self) -> Option<&Arc<PlaceCheck>> {
        self.place.as_ref()
    }

    /// Whether it takes a place.
    pub(crate) fn takes_place(&self) -> bool {
        self.place.is_some()
    }

    /// Whether it has limits, and not only a place to take.
    pub(crate) fn is_limited(&self) -> bool {
        !self.check().terms.limits().is_empty()
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    pub(crate) fn check(&self) -> Check<'_> {
        self.check.as_check()
    }

    /// How long the check may take.
    pub(super) fn timeout(&self) -> Duration {
        self.engine.timeout_of(&self.check())
    }

    /// The time limit of the check if it began at `start`.
    pub(super) fn limit_after(&self, start: Instant) -> TimeLimit {
        TimeLimit::after(start, self.timeout())
    }

    /// Whether the charge is a reservation.
    pub(crate) fn reserves(&self) -> bool {
        self.check().request.is_reservation()
    }

    /// The request, if the engine's store can keep it.
    pub(super) fn request(&self) -> Result<Request<'_>, RateLimitError> {
        let check = self.check();
        if self.engine.can_be_asked(&check) { Ok(check.request) } else { Err(self.engine.problem(&check)) }
    }

    /// The request that a store gets to change something about the key.
    pub(crate) fn key_request(&self) -> Result<Request<'_>, RateLimitError> {
        self.check().key_request()
    }

    /// Whether the store has a feature, or the error that says that it does not.
    pub(crate) fn require(&self, feature: Feature) -> Result<(), RateLimitError> {
        Ok(self.engine.capabilities.require(self.check().terms.algorithm(), feature)?)
    }

    /// Decides and charges, from the beginning. A refusal is a decision.
    pub(super) async fn acquire(&self, limit: TimeLimit) -> Result<Decision, RateLimitError> {
        let request = self.request()?.with_timeout_at(limit.at());
        if let Some(blocked) = self.engine.fallback.blocked(&self.check()) {
            return Ok(self.check().fallback_decision(&blocked));
        }
        let mut answer = self.engine.store.acquire(request);
        match self.engine.await_within(limit, &mut answer).await {
            Ok(verdict) => Ok(self.check().decision(&verdict)),
            Err(error) => self.engine.decide_without_store(&self.check(), error),
        }
    }

    /// Decides without charging.
    pub(super) async fn peek_within(&self, limit: TimeLimit) -> Result<Decision, RateLimitError> {
        let request = self.request()?.with_timeout_at(limit.at());
        let (engine, check) = (&self.engine, self.check());
        if let Some(blocked) = engine.fallback.blocked(&check) {
            return Ok(check.fallback_decision(&blocked));
        }
        let mut answer = engine.store.peek(request);
        match engine.await_within(limit, &mut answer).await {
            Ok(verdict) => Ok(check.decision(&verdict)),
            Err(error) => match (engine.known_refusal(&check, &error), engine.outage_answer(&check, &error)) {
                (Some(refusal), _) => Ok(refusal),
                (None, OutageAnswer::Unchecked) => Ok(check.unchecked()),
                (None, OutageAnswer::Fallback) => Ok(check.fallback_decision(&engine.fallback.peek(request)?)),
                (None, OutageAnswer::Error) => Err(error.into()),
            },
        }
    }

    /// Decides without charging, by hand.
    pub(crate) async fn peek(&self) -> Result<Decision, RateLimitError> {
        self.peek_within(TimeLimit::new(self.timeout())).await
    }

    /// Asks the store to change something about the key. `on_unavailable` does not apply: if the
    /// store fails, so does this.
    pub(crate) async fn change<T: Unpin>(
        &self,
        change: impl for<'a> FnOnce(&'a (dyn Store + 'static), Request<'a>) -> Answer<'a, T>,
    ) -> Result<T, RateLimitError> {
        let limit = TimeLimit::new(self.timeout());
        let request = self.key_request()?.with_timeout_at(limit.at());
        let mut answer = change(&*self.engine.store, request);
        self.engine.await_within(limit, &mut answer).await.map_err(Into::into)
    }

    /// Calls `what` on the store that made the charge, be it the engine's or the fallback; `None`
    /// if nothing was charged.
    pub(super) fn charged_by<'a, T>(
        &'a self,
        charge: Receipt,
        what: impl FnOnce(&'a (dyn Store + 'static), Request<'a>, u64) -> Answer<'a, T>,
    ) -> Result<Option<Answer<'a, T>>, RateLimitError> {
        let (store, ticket): (&dyn Store, u64) = match charge {
            Receipt::None => return Ok(None),
            Receipt::Store(ticket) => (&*self.engine.store, ticket),
            Receipt::Fallback(ticket) => (self.engine.fallback.store(), ticket),
        };
        Ok(Some(what(store, self.check().key_request()?, ticket)))
    }
}

impl Engine {
    /// How long a check may take.
    pub(super) fn timeout_of(&self, check: &Check<'_>) -> Duration {
        check.terms.timeout.unwrap_or(self.timeout)
    }

    /// Waits for an answer.
    pub(super) async fn await_within<T: Unpin>(
        &self,
        limit: TimeLimit,
        answer: &mut Answer<'_, T>,
    ) -> Result<T, StoreError> {
        observe::timed(|| self.store.innermost().server(), answer.within(limit)).await
    }
}
