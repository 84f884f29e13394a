//! [`Part`]: a check that is kept across an `.await`, alone or in a stack.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::bound::BoundRule;
use super::check::Check;
use super::permit::PermitCheck;
use super::state::{Engine, Forget};
use super::timeout::Time;
use crate::decision::{Decision, Source};
use crate::error::{RateLimitError, StoreError, StoreErrorKind};
use crate::key::KeyBuf;
use crate::rule::{Limit, Terms};
use crate::store::{Answer, BuiltInStore as _, Feature, PermitId, Request, Reserves, Store};

/// A [`Check`] that owns its values, and the permit that the call asks for with it.
#[derive(Clone)]
pub(crate) struct Part {
    pub(crate) engine: Arc<Engine>,
    pub(crate) bound: Arc<BoundRule>,
    /// The terms, if they differ from those of the bound rule.
    terms: Option<Box<Terms>>,
    key: KeyBuf,
    cost: u64,
    pub(super) reserves: Reserves,
    pub(super) shadow: bool,
    pub(crate) permit: Option<Arc<PermitCheck>>,
}

/// A part and its index in the stack.
pub(super) type At<'a> = (usize, &'a Part);

impl Part {
    #[inline]
    pub(crate) fn new(engine: &Arc<Engine>, check: &Check<'_>) -> Self {
        let Check { request, terms, .. } = check;
        Self {
            engine: Arc::clone(engine),
            bound: Arc::clone(check.bound),
            terms: (!std::ptr::eq(*terms, &raw const check.bound.terms)).then(|| Box::new(**terms)),
            key: KeyBuf::from_slice(request.key()),
            cost: request.cost(),
            reserves: request.reserves,
            shadow: check.shadow,
            permit: None,
        }
    }

    pub(crate) fn check(&self) -> Check<'_> {
        let terms = self.terms.as_deref().unwrap_or(&self.bound.terms);
        let Self {
            cost,
            reserves,
            shadow,
            ..
        } = *self;
        Check::new(&self.bound, terms, &self.key, cost, reserves, shadow)
    }

    /// The request that charges the part for now, to be given back unless its whole stack is
    /// charged: as a reservation by `count`, if the store has those, and without offences against
    /// its block.
    pub(super) fn charged_for_now(&self, time: Time) -> Request<'_> {
        let request = time.of(self.check().request);
        Request {
            reserves: if self.bound.has(Feature::Reserve) {
                Reserves::Cost
            } else {
                Reserves::Nothing
            },
            block: request.block.without_offences(),
            ..request
        }
    }

    /// `true` if the rule has limits beside a permit.
    pub(crate) fn is_limited(&self) -> bool {
        !self.bound.terms.limits().is_empty()
    }

    /// The limiter and the key that the part charges, if its rule has limits.
    pub(super) fn charged_key(&self) -> Option<(u64, &[u8])> {
        self.is_limited().then(|| (self.engine.id, &*self.key))
    }

    pub(super) fn cost(&self) -> u64 {
        self.cost
    }

    /// `Ok` if the limits can admit a call of this cost at some time.
    pub(super) fn may_cost(&self, cost: u64) -> Result<(), RateLimitError> {
        self.bound.supports(self.check().terms, cost)
    }

    /// `true` if the outcome of the call decides its cost.
    pub(crate) fn reserves(&self) -> bool {
        self.reserves != Reserves::Nothing
    }

    pub(super) fn time(&self, start: Instant) -> Time {
        let timeout = self.check().terms.timeout.unwrap_or(self.engine.timeout);
        // No call waits for a year, and a sum of times must not overflow.
        let end = start + timeout.min(Limit::MAX_WINDOW);
        Time { start, end }
    }

    /// The time for which a refused call waits; zero if it does not wait.
    pub(super) fn wait(&self) -> Duration {
        let check = self.check();
        if check.waits() {
            check.terms.wait()
        } else {
            Duration::ZERO
        }
    }

    /// `Ok` if the store supports all of the part.
    pub(super) fn ensure_supported(&self) -> Result<(), RateLimitError> {
        self.check().ensure_supported()?;
        let Some(permit) = &self.permit else {
            return Ok(());
        };
        self.bound.require(Feature::Concurrent)?;
        if permit.max == 0 {
            let refusal = permit.refused(Source::DenyCache);
            return Err(RateLimitError::Exceeded(refusal));
        }
        Ok(())
    }

    /// The error of a call whose rule has no permits.
    pub(crate) fn no_concurrent(&self) -> RateLimitError {
        RateLimitError::misconfigured(format!(
            "the rule `{}` does not limit calls in flight: give it `with_concurrent(…)`, or call \
             `acquire`",
            self.bound.name.as_str()
        ))
    }

    /// The request by which a store changes the key's state; the cost of the call does not matter.
    ///
    /// # Errors
    ///
    /// If the rule has a mistake, such as an unknown policy, or a name with two meanings.
    pub(crate) fn key_request(&self) -> Result<Request<'_>, RateLimitError> {
        self.bound.has_no_mistake()?;
        Ok(self.check().request)
    }

    /// The number of calls in flight for the key.
    pub(crate) async fn in_flight(&self) -> Result<u64, RateLimitError> {
        self.bound.has_no_mistake()?;
        let Some(permit) = &self.permit else {
            return Err(self.no_concurrent());
        };
        self.bound.require(Feature::Concurrent)?;
        let time = self.time(Instant::now());
        self.ask_in_flight(permit, time).await.map_err(Into::into)
    }

    pub(super) async fn ask_in_flight(
        &self,
        permit: &PermitCheck,
        time: Time,
    ) -> Result<u64, StoreError> {
        let request = permit.request(PermitId::next(), Some(time.end.into_std()));
        let mut answer = self.engine.store.in_flight(request);
        self.engine.answered(time, &mut answer).await
    }

    /// `true` if an offence against the limits sets a block.
    pub(super) fn blocks(&self) -> bool {
        self.check().request.block.first_us() > 0
    }

    /// Sets the block of a rule whose limits refuse a call that nothing else refuses. Returns the
    /// refusal by the block, if it is set now. `cost` is what the stack asks of its key.
    pub(super) async fn offend(&self, cost: u64, time: Time) -> Option<Decision> {
        let (engine, check) = (&self.engine, self.check());
        let request = Request {
            cost,
            ..time.of(check.request)
        };
        let mut answer = engine.store.offend(request);
        match engine.answered(time, &mut answer).await {
            Ok(verdict) => (!verdict.allowed).then(|| check.decision(&verdict)),
            // A store of another crate cannot look and block in one step.
            Err(error) if error.kind() == StoreErrorKind::Unsupported => {
                let mut answer = engine.store.block(request, request.block());
                let blocked = engine.answered(time, &mut answer).await;
                blocked.ok().map(|()| check.blocked())
            }
            Err(_) => None,
        }
    }

    /// Lets the store, and the fallback memory, forget something of the key; `true` if there was
    /// anything.
    pub(crate) async fn forget(&self, forget: Forget) -> Result<bool, RateLimitError> {
        let here = self.engine.fallback.forget(forget, self.key_request()?);
        Ok(self.change(forget).await? || here)
    }

    /// Asks the store to change the state of the key; the cost of a call does not matter.
    /// `on_unavailable` does not apply: if the store fails, this fails.
    pub(crate) async fn change<T: Unpin>(
        &self,
        change: impl for<'a> FnOnce(&'a (dyn Store + 'static), Request<'a>) -> Answer<'a, T>,
    ) -> Result<T, RateLimitError> {
        let time = self.time(Instant::now());
        let request = Request {
            cost: 1,
            ..time.of(self.key_request()?)
        };
        let mut answer = change(&*self.engine.store, request);
        let changed = self.engine.answered(time, &mut answer).await;
        changed.map_err(Into::into)
    }
}
