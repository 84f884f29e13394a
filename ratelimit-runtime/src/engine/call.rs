//! [`OwnedCall`]: a check with its engine, to be kept across an `.await`.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::check::{Asked, Check};
use super::permit::PlaceCheck;
use super::state::Engine;
use crate::decision::{Decision, Source};
use crate::error::{RateLimitError, StoreError};
use crate::key::KeyBuf;
use crate::observe;
use crate::real_time::{self, Elapsed};
use crate::rule::{Limit, Name, Terms};
use crate::store::{Answer, Feature, PermitId, Request, Store};

/// A [`Check`] that borrows nothing, with its engine.
#[derive(Clone)]
pub(crate) struct OwnedCall {
    pub(crate) engine: Arc<Engine>,
    pub(super) name: Name,
    pub(super) terms: Terms,
    pub(super) asked: Asked,
    pub(super) key: KeyBuf,
    pub(super) rule_len: usize,
    pub(super) broken: Option<Box<RateLimitError>>,
    /// Where calls in flight are limited.
    pub(crate) place: Option<Arc<PlaceCheck>>,
}

impl OwnedCall {
    #[inline]
    pub(crate) fn new(engine: Arc<Engine>, check: &Check<'_>) -> Self {
        let Check {
            name,
            terms,
            shadow,
            request,
            broken,
            ..
        } = check;
        Self {
            engine,
            name: *name,
            terms: **terms,
            asked: Asked {
                cost: request.cost(),
                reserves: request.reserves,
                shadow: *shadow,
            },
            key: KeyBuf::from_slice(request.key()),
            rule_len: request.rule_key().len(),
            broken: broken.map(|error| Box::new(error.clone())),
            place: None,
        }
    }

    /// The same, which takes this place as well: the last of its limits.
    pub(crate) fn with_place(self, place: Option<PlaceCheck>) -> Self {
        let index = u8::try_from(self.terms.limits().len()).unwrap_or(u8::MAX);
        Self {
            place: place.map(|place| Arc::new(PlaceCheck { index, ..place })),
            ..self
        }
    }

    /// Whether it has limits, and not only a place to take.
    pub(crate) fn is_limited(&self) -> bool {
        !self.terms.limits().is_empty()
    }

    pub(crate) fn check(&self) -> Check<'_> {
        let check = Check::new(self.name, &self.terms, self.asked, &self.key, self.rule_len);
        Check {
            broken: self.broken.as_deref(),
            ..check
        }
    }

    /// When the timeout of all parts of the check ends, if it began at `start`.
    pub(super) fn timeout_at(&self, start: Instant) -> Instant {
        start + self.engine.timeout_of(&self.check())
    }

    /// Whether the charge is a reservation.
    pub(crate) fn reserves(&self) -> bool {
        self.check().request.is_reservation()
    }

    /// The request, if the engine's store can keep it.
    pub(super) fn request(&self) -> Result<Request<'_>, RateLimitError> {
        let check = self.check();
        if self.engine.can_be_asked(&check) {
            Ok(check.request)
        } else {
            Err(self.engine.problem(&check))
        }
    }

    /// The request by which a store changes something about the key; the cost of the call does not
    /// matter.
    ///
    /// # Errors
    ///
    /// Those of the check itself: an unknown policy, two meanings of a name.
    pub(crate) fn key_request(&self) -> Result<Request<'_>, RateLimitError> {
        match &self.broken {
            Some(error) => Err(RateLimitError::clone(error)),
            None => Ok(self.check().request),
        }
    }

    /// Whether the store has a feature, or the error that says that it does not.
    pub(crate) fn require(&self, feature: Feature) -> Result<(), RateLimitError> {
        Ok(self
            .engine
            .capabilities
            .require(self.terms.algorithm(), feature)?)
    }

    /// Whether the check is sound, and the store declares what it needs.
    pub(super) fn sound(&self) -> Result<(), RateLimitError> {
        if self.is_limited() {
            self.request()?;
        } else {
            self.key_request()?;
        }
        let Some(place) = &self.place else {
            return Ok(());
        };
        self.require(Feature::Concurrent)?;
        if place.max == 0 {
            let rule = place.name.as_str();
            return Err(RateLimitError::CostExceedsLimit {
                rule,
                cost: 1,
                limit: 0,
                is_of_log: false,
            });
        }
        Ok(())
    }

    /// How many calls are in flight.
    pub(crate) async fn in_flight(&self) -> Result<u64, RateLimitError> {
        self.sound()?;
        let Some(place) = &self.place else {
            return Err(self.no_in_flight_limit());
        };
        self.ask_in_flight(place).await.map_err(Into::into)
    }

    async fn ask_in_flight(&self, place: &PlaceCheck) -> Result<u64, StoreError> {
        let now = Instant::now();
        let until = self.timeout_at(now);
        let request = place.request(PermitId::next(), Some(until));
        let mut answer = self.engine.store.innermost().in_flight(request);
        self.engine.await_until(now, until, &mut answer).await
    }

    /// The error of a call whose rule has no places.
    pub(crate) fn no_in_flight_limit(&self) -> RateLimitError {
        RateLimitError::misconfigured(format!(
            "the rule `{}` does not limit calls in flight: give it `with_concurrent(…)`, or call `acquire`",
            self.name.as_str()
        ))
    }

    /// Decides without charging, and takes no place.
    pub(crate) async fn peek(&self) -> Result<Decision, RateLimitError> {
        self.sound()?;
        let limits = if self.is_limited() {
            Some(self.peek_since(Instant::now()).await?)
        } else {
            None
        };
        let Some(place) = &self.place else {
            return limits.ok_or_else(|| self.no_in_flight_limit());
        };
        let (source, in_flight) = match self.ask_in_flight(place).await {
            Ok(in_flight) => (Source::Store, in_flight),
            Err(error) => match self.engine.outage_answer(&self.check(), &error) {
                Some(Source::Fallback) => (Source::Fallback, self.engine.permits.count(&place.key)),
                Some(nobody) => (nobody, 0),
                None => return Err(error.into()),
            },
        };
        let standing = if in_flight < place.max {
            place.entered(in_flight, source)
        } else {
            place.refused(source)
        };
        Ok(match limits {
            Some(limits) if !limits.is_allowed() || standing.is_allowed() => limits,
            _ => standing,
        })
    }

    /// Decides on the limits without charging, as a part of a check that began at `since`.
    pub(super) async fn peek_since(&self, since: Instant) -> Result<Decision, RateLimitError> {
        let until = self.timeout_at(since);
        let request = self.request()?.with_timeout_at(until);
        let (engine, check) = (&self.engine, self.check());
        if let Some(blocked) = engine.fallback.blocked(&check) {
            return Ok(check.fallback_decision(&blocked));
        }
        let mut answer = engine.store.peek(request);
        match engine.await_until(since, until, &mut answer).await {
            Ok(verdict) => Ok(check.decision(&verdict)),
            Err(error) => match (
                engine.known_refusal(&check, &error),
                engine.outage_answer(&check, &error),
            ) {
                (Some(refusal), _) => Ok(refusal),
                (None, Some(Source::Fallback)) => {
                    Ok(check.fallback_decision(&engine.fallback.peek(request)?))
                }
                (None, Some(_)) => Ok(check.unchecked()),
                (None, None) => Err(error.into()),
            },
        }
    }

    /// Asks the store to change something about the key, for which the cost of a call does not
    /// matter. `on_unavailable` does not apply: if the store fails, so does this.
    pub(crate) async fn change<T: Unpin>(
        &self,
        change: impl for<'a> FnOnce(&'a (dyn Store + 'static), Request<'a>) -> Answer<'a, T>,
    ) -> Result<T, RateLimitError> {
        let now = Instant::now();
        let until = self.timeout_at(now);
        let request = self.key_request()?.with_cost(1).with_timeout_at(until);
        let mut answer = change(&*self.engine.store, request);
        self.engine
            .await_until(now, until, &mut answer)
            .await
            .map_err(Into::into)
    }
}

impl Engine {
    /// How long a check may take.
    pub(super) fn timeout_of(&self, check: &Check<'_>) -> Duration {
        // No call waits for a year, and a sum of times must not overflow.
        check
            .terms
            .timeout
            .unwrap_or(self.timeout)
            .min(Limit::MAX_WINDOW)
    }

    /// Waits for an answer until this moment, whatever the store does meanwhile, in a check that began
    /// at `since`. Real time: a server does not know that the clock of a test is paused.
    pub(super) async fn await_until<T: Unpin>(
        &self,
        since: Instant,
        until: Instant,
        answer: &mut Answer<'_, T>,
    ) -> Result<T, StoreError> {
        if let Some(result) = answer.take_known() {
            return result;
        }
        if let Err(why) = real_time::can_wait() {
            return Err(StoreError::misconfigured(format!(
                "a check on this store cannot be made here: {why}"
            )));
        }
        let answer = pin!(async {
            let answer = real_time::timeout_at(since, until, answer).await;
            let too_late = || {
                StoreError::timed_out(format!(
                    "no answer from the store within {:?}",
                    since.elapsed()
                ))
            };
            answer.unwrap_or_else(|Elapsed| Err(too_late()))
        });
        observe::timed(|| self.store.innermost().server(), answer).await
    }
}
