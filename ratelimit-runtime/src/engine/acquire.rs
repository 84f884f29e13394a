//! One check: asks the store within the time limit, and if it gives no answer, lets the rule's `on_unavailable` policy
//! decide who answers instead.

use std::time::Instant;

use super::asked::Asked;
use super::check::Check;
use super::fallback::Instead;
use super::parts::Engine;
use super::time_limit::TimeLimit;
use crate::decision::{Decision, Source, Status};
use crate::error::{RateLimitError, StoreError, StoreErrorKind};
use crate::observe;
use crate::rule::Limit;
use crate::store::{Answer, Health, Request, Store, Verdict};

impl Engine {
    /// The outcome of a check, if it takes no waiting at all; `None` if it does, and then nothing has been asked.
    #[allow(clippy::inline_always, reason = "as that of the guard")]
    #[inline(always)]
    pub(super) fn acquire_now<T: Admission>(&self, check: &Check<'_>) -> Option<Result<T, RateLimitError>> {
        if (!self.can_be_asked(check, &check.as_request()) || self.fallback.is_in_use())
            && let Some(outcome) = self.outcome_before(check)
        {
            return Some(outcome);
        }
        match self.store.acquire_now(check.as_request())? {
            Ok(verdict) if observe::listens(verdict.allowed, check.shadow) => {
                Some(check.observed_outcome(check.decision(&verdict)))
            }
            Ok(verdict) if verdict.allowed || check.shadow => {
                check.count(&verdict);
                Some(Ok(T::of(|| check.decision(&verdict))))
            }
            Ok(verdict) => {
                check.count(&verdict);
                Some(Err(RateLimitError::Exceeded(check.decision(&verdict))))
            }
            Err(error) => Some(self.outcome_without_store(check, error)),
        }
    }

    /// The outcome of a check that the store is not asked for.
    #[cold]
    fn outcome_before<T: Admission>(&self, check: &Check<'_>) -> Option<Result<T, RateLimitError>> {
        let request = check.as_request();
        let decided = if self.can_be_asked(check, &request) {
            Ok(check.fallback_decision(&self.fallback.blocked(check, request)?))
        } else {
            check.undecided(self.problem(check))
        };
        Some(check.outcome(decided))
    }

    #[cold]
    fn outcome_without_store<T: Admission>(&self, check: &Check<'_>, error: StoreError) -> Result<T, RateLimitError> {
        check.outcome(self.without_store(check, &check.as_request(), error))
    }

    /// Whether the check is sound, and the store declares what it needs.
    #[inline]
    fn can_be_asked(&self, check: &Check<'_>, request: &Request<'_>) -> bool {
        check.is_sound() && self.supports(request)
    }

    /// Why it cannot be asked.
    #[cold]
    fn problem(&self, check: &Check<'_>) -> RateLimitError {
        if check.is_sound() { self.unsupported(&check.as_request()).into() } else { check.problem() }
    }

    #[cold]
    fn without_store(
        &self,
        check: &Check<'_>,
        request: &Request<'_>,
        error: StoreError,
    ) -> Result<Decision, RateLimitError> {
        match self.instead(check, request, &error) {
            Instead::Nobody => {
                observe::degraded(check.name, Source::Nobody, &error);
                Ok(check.unchecked())
            }
            Instead::Memory => {
                observe::degraded(check.name, Source::Fallback, &error);
                match self.fallback.acquire(*request) {
                    Ok(verdict) => Ok(check.fallback_decision(&verdict)),
                    Err(error) => check.undecided(error),
                }
            }
            Instead::Error => check.undecided(error.into()),
        }
    }

    /// Who answers instead of the store that gave this error.
    fn instead(&self, check: &Check<'_>, request: &Request<'_>, error: &StoreError) -> Instead {
        let health = match error.kind() {
            StoreErrorKind::TimedOut => self.store.health(request),
            _ => Health::Down,
        };
        let policy = check.terms.on_unavailable.unwrap_or(self.on_unavailable);
        Instead::of(policy, error.kind(), health)
    }
}

impl Asked {
    /// The request, if the engine's store can keep it.
    pub(super) fn request(&self) -> Result<Request<'_>, RateLimitError> {
        let request = self.check().as_request();
        if self.engine.can_be_asked(&self.check(), &request) {
            Ok(request)
        } else {
            Err(self.engine.problem(&self.check()))
        }
    }

    /// The time limit of the check if it began at `start`.
    pub(super) fn limit_after(&self, start: Instant) -> TimeLimit {
        TimeLimit::after(start, self.timeout())
    }

    /// Asks, and charges if the answer is yes.
    pub(super) async fn acquire(&self, limit: TimeLimit) -> Result<Decision, RateLimitError> {
        let decided = match self.request() {
            Ok(request) => self.decide(request.with_timeout_at(limit.at()), limit).await,
            Err(error) => self.check().undecided(error),
        };
        self.check().judged(decided?)
    }

    async fn decide(&self, request: Request<'_>, limit: TimeLimit) -> Result<Decision, RateLimitError> {
        let (engine, check) = (&*self.engine, self.check());
        if let Some(blocked) = engine.fallback.blocked(&check, request) {
            return Ok(check.fallback_decision(&blocked));
        }
        let answer = engine.store.acquire(request);
        match self.by(limit, &[request], answer).await {
            Ok(verdict) => Ok(check.decision(&verdict)),
            Err(error) => engine.without_store(&check, &request, error),
        }
    }

    /// Decides without charging.
    pub(super) async fn peek(&self, limit: TimeLimit) -> Result<Decision, RateLimitError> {
        let request = self.request()?.with_timeout_at(limit.at());
        if let Some(blocked) = self.engine.fallback.blocked(&self.check(), request) {
            return Ok(self.check().fallback_decision(&blocked));
        }
        let answer = self.engine.store.peek(request);
        match self.by(limit, &[request], answer).await {
            Ok(verdict) => Ok(self.check().decision(&verdict)),
            Err(error) => match self.instead(&request, &error) {
                Instead::Nobody => Ok(self.check().unchecked()),
                Instead::Memory => Ok(self.check().fallback_decision(&self.engine.fallback.peek(request)?)),
                Instead::Error => Err(error.into()),
            },
        }
    }

    /// Waits for an answer. If none came within the limiter's full timeout, tells the store that it is overdue.
    pub(super) async fn by<T: Unpin>(
        &self,
        limit: TimeLimit,
        requests: &[Request<'_>],
        answer: Answer<'_, T>,
    ) -> Result<T, StoreError> {
        let overdue = |waited| {
            // Some of the time went by before the answer was waited for.
            let all = self.engine.timeout;
            if limit.timeout() >= all && waited >= all / 8 * 7 {
                for request in requests {
                    self.engine.store.overdue(request, self.engine.timeout);
                }
            }
        };
        observe::timed(answer.within(limit, overdue)).await
    }

    pub(super) fn instead(&self, request: &Request<'_>, error: &StoreError) -> Instead {
        self.engine.instead(&self.check(), request, error)
    }
}

/// What a caller makes of an admission. A decision is only made for those who look at it.
pub(crate) trait Admission {
    fn of(decision: impl FnOnce() -> Decision) -> Self;
}

impl Admission for () {
    #[inline]
    fn of(_: impl FnOnce() -> Decision) -> Self {}
}

impl Admission for Decision {
    #[inline]
    fn of(decision: impl FnOnce() -> Self) -> Self {
        decision()
    }
}

impl<'a> Check<'a> {
    /// What a decision means for the call, once it has been observed.
    #[cold]
    fn observed_outcome<T: Admission>(&self, decision: Decision) -> Result<T, RateLimitError> {
        observe::decision(&self.observed(&decision));
        self.judged(decision)
    }

    /// The same of a check that may have failed.
    #[cold]
    fn outcome<T: Admission>(&self, decided: Result<Decision, RateLimitError>) -> Result<T, RateLimitError> {
        match decided {
            Ok(decision) => self.observed_outcome(decision),
            Err(error) => {
                observe::failed(self.name, &error);
                Err(error)
            }
        }
    }

    /// What there is to be observed where nobody wants to be told.
    #[inline]
    fn count(&self, verdict: &Verdict) {
        observe::count(|| self.decision(verdict), self.shadow);
    }

    /// In shadow mode a call runs whatever was decided.
    fn judged<T: Admission>(&self, decision: Decision) -> Result<T, RateLimitError> {
        if decision.is_allowed() || self.shadow {
            Ok(T::of(|| decision))
        } else {
            Err(RateLimitError::Exceeded(decision))
        }
    }

    /// A check that nobody has decided fails; in shadow mode its call runs.
    #[cold]
    fn undecided(&self, error: RateLimitError) -> Result<Decision, RateLimitError> {
        if !self.shadow {
            return Err(error);
        }
        observe::log::shadow_failed(self.name.as_str(), &error);
        Ok(self.unchecked())
    }

    /// The decision, for those who want to know of it.
    #[inline]
    pub(super) fn observed<'d>(&self, decision: &'d Decision) -> observe::Observed<'d>
    where
        'a: 'd,
    {
        observe::Observed {
            decision,
            algorithm: self.terms.algorithm(),
            limits: self.terms.limits(),
            shadow: self.shadow,
        }
    }

    pub(super) fn unchecked(&self) -> Decision {
        let window = self.terms.limits().first().map_or(0, Limit::window_us);
        Decision::unchecked(self.name, self.capacity(), window)
    }

    /// A decision of this process alone.
    pub(super) fn fallback_decision(&self, verdict: &Verdict) -> Decision {
        Decision { source: Source::Fallback, ..self.decision(verdict) }
    }

    #[inline]
    pub(super) fn decision(&self, verdict: &Verdict) -> Decision {
        let limit = self.terms.limits().get(verdict.limit_index);
        let capacity = limit.map_or(0, |limit| self.terms.algorithm().capacity(limit));
        Decision {
            rule: self.name,
            limit: capacity,
            window_us: limit.map_or(0, Limit::window_us),
            remaining: verdict.remaining,
            retry_after_us: verdict.retry_after_us,
            reset_after_us: verdict.reset_after_us,
            ticket: verdict.ticket,
            limit_index: u8::try_from(verdict.limit_index).unwrap_or(u8::MAX),
            source: if verdict.cached { Source::DenyCache } else { Source::Store },
            status: match (verdict.allowed, verdict.blocked) {
                (true, _) => Status::Allowed,
                (false, false) => Status::Exceeded,
                (false, true) => Status::Blocked,
            },
            bursts: limit.is_some_and(|limit| limit.max() != capacity),
        }
    }
}

/// Decides without charging, by hand.
pub(crate) async fn peek(asked: &Asked) -> Result<Decision, RateLimitError> {
    asked.peek(TimeLimit::new(asked.timeout())).await
}

/// Asks the store to change something about a key. `on_unavailable` does not apply: if the store fails, so does this.
pub(crate) async fn change<T: Unpin>(
    asked: &Asked,
    change: impl for<'a> FnOnce(&'a (dyn Store + 'static), Request<'a>) -> Answer<'a, T>,
) -> Result<T, RateLimitError> {
    let limit = TimeLimit::new(asked.timeout());
    let request = asked.check().key_request()?.with_timeout_at(limit.at());
    let answer = change(&*asked.engine.store, request);
    asked.by(limit, &[request], answer).await.map_err(Into::into)
}
