//! One check: asks the store within the time limit, and if it gives no answer, lets the rule's `on_unavailable` policy
//! decide who answers instead.

use std::time::Instant;

use super::asked::Asked;
use super::fallback::Instead;
use super::time_limit::TimeLimit;
use crate::decision::{Decision, Source};
use crate::error::{RateLimitError, StoreError, StoreErrorKind};
use crate::rule::Limit;
use crate::store::{Answer, Health, Request, Store, Verdict};

impl Asked {
    /// The request, if the engine's store can keep it.
    pub(super) fn request(&self, timeout_at: Option<Instant>) -> Result<Request<'_>, RateLimitError> {
        let request = self.check.request(timeout_at)?;
        match self.engine.covers(&request) {
            Ok(()) => Ok(request),
            Err(error) => Err(error.into()),
        }
    }

    /// The time limit of the check if it began at `start`.
    pub(super) fn limit_after(&self, start: Instant) -> TimeLimit {
        TimeLimit::after(start, self.check.timeout)
    }

    /// Asks, and charges if the answer is yes.
    pub(super) async fn acquire(&self, limit: TimeLimit) -> Result<Decision, RateLimitError> {
        let request = match self.request(Some(limit.at())) {
            Ok(request) => request,
            Err(error) => return self.shadowed(Err(error)),
        };
        if let Some(blocked) = self.engine.fallback.blocked(&self.check, request) {
            return self.shadowed(judged(self.fallback_decision(&blocked)));
        }
        let answer = self.engine.store.acquire(request);
        let verdict = self.by(limit, &[request], answer).await;
        self.conclude(&request, verdict)
    }

    /// The answer, if it takes no waiting at all; `None` if it does, and then nothing has been asked.
    pub(super) fn acquire_now(&self) -> Option<Result<Decision, RateLimitError>> {
        let request = match self.request(None) {
            Ok(request) => request,
            Err(error) => return Some(self.shadowed(Err(error))),
        };
        if let Some(blocked) = self.engine.fallback.blocked(&self.check, request) {
            return Some(self.shadowed(judged(self.fallback_decision(&blocked))));
        }
        let verdict = self.engine.store.acquire_now(request)?;
        Some(self.conclude(&request, verdict))
    }

    /// Decides without charging.
    pub(super) async fn peek(&self, limit: TimeLimit) -> Result<Decision, RateLimitError> {
        let request = self.request(Some(limit.at()))?;
        if let Some(blocked) = self.engine.fallback.blocked(&self.check, request) {
            return Ok(self.fallback_decision(&blocked));
        }
        let answer = self.engine.store.peek(request);
        match self.by(limit, &[request], answer).await {
            Ok(verdict) => Ok(self.decision(&verdict)),
            Err(error) => match self.instead(&request, &error) {
                Instead::Nobody => Ok(self.unchecked()),
                Instead::Memory => Ok(self.fallback_decision(&self.engine.fallback.peek(request)?)),
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
        let sent = Instant::now();
        let result = answer.within(limit).await;
        if let Err(error) = &result
            && error.kind() == StoreErrorKind::TimedOut
            && sent.elapsed() >= self.engine.timeout
        {
            for request in requests {
                self.engine.store.overdue(request, self.engine.timeout);
            }
        }
        result
    }

    /// Who answers instead of the store that gave this error.
    pub(super) fn instead(&self, request: &Request<'_>, error: &StoreError) -> Instead {
        let health = match error.kind() {
            StoreErrorKind::TimedOut => self.engine.store.health(request),
            _ => Health::Down,
        };
        Instead::of(self.check.on_unavailable, error.kind(), health)
    }

    /// A decision or a refusal, from what the store said.
    fn conclude(
        &self,
        request: &Request<'_>,
        verdict: Result<Verdict, StoreError>,
    ) -> Result<Decision, RateLimitError> {
        let outcome = match verdict {
            Ok(verdict) => judged(self.decision(&verdict)),
            Err(error) => self.without_store(request, error),
        };
        self.shadowed(outcome)
    }

    fn without_store(&self, request: &Request<'_>, error: StoreError) -> Result<Decision, RateLimitError> {
        let rule = self.check.name.as_str();
        match self.instead(request, &error) {
            Instead::Nobody => {
                tracing::debug!(rule, %error, "a call goes on unchecked: the store is unavailable");
                Ok(self.unchecked())
            }
            Instead::Memory => {
                tracing::debug!(rule, %error, "a call is limited by this process alone");
                judged(self.fallback_decision(&self.engine.fallback.acquire(*request)?))
            }
            Instead::Error => Err(error.into()),
        }
    }

    /// In shadow mode a call runs whatever was decided.
    fn shadowed(&self, outcome: Result<Decision, RateLimitError>) -> Result<Decision, RateLimitError> {
        if !self.check.shadow {
            return outcome;
        }
        Ok(match outcome {
            Ok(decision) | Err(RateLimitError::Exceeded(decision)) => decision,
            Err(error) => {
                let rule = self.check.name.as_str();
                tracing::warn!(rule, %error, "a check failed and its call runs: the rule is in shadow mode");
                self.unchecked()
            }
        })
    }

    pub(super) fn unchecked(&self) -> Decision {
        let window = self.check.limits.first().map_or(0, Limit::window_us);
        Decision::unchecked(self.check.name, self.check.capacity(), window)
    }

    /// A decision of this process alone.
    pub(super) fn fallback_decision(&self, verdict: &Verdict) -> Decision {
        Decision { source: Source::Fallback, ..self.decision(verdict) }
    }

    pub(super) fn decision(&self, verdict: &Verdict) -> Decision {
        let limit = self.check.limits.get(verdict.limit_index);
        Decision {
            rule: self.check.name,
            limit: limit.map_or(0, |limit| self.check.algorithm.capacity(limit)),
            window_us: limit.map_or(0, Limit::window_us),
            remaining: verdict.remaining,
            retry_after_us: verdict.retry_after_us,
            reset_after_us: verdict.reset_after_us,
            ticket: verdict.ticket,
            limit_index: u8::try_from(verdict.limit_index).unwrap_or(u8::MAX),
            source: if verdict.cached { Source::DenyCache } else { Source::Store },
            allowed: verdict.allowed,
            blocked: verdict.blocked,
        }
    }
}

fn judged(decision: Decision) -> Result<Decision, RateLimitError> {
    if decision.is_allowed() { Ok(decision) } else { Err(RateLimitError::Exceeded(decision)) }
}

/// Decides without charging, by hand.
pub(crate) async fn peek(asked: &Asked) -> Result<Decision, RateLimitError> {
    asked.peek(TimeLimit::new(asked.check.timeout)).await
}

/// Asks the store to change something about a key. `on_unavailable` does not apply: if the store fails, so does this.
pub(crate) async fn change<T: Unpin>(
    asked: &Asked,
    change: impl for<'a> FnOnce(&'a (dyn Store + 'static), Request<'a>) -> Answer<'a, T>,
) -> Result<T, RateLimitError> {
    let limit = TimeLimit::new(asked.check.timeout);
    let request = asked.check.key_request()?.with_timeout_at(limit.at());
    let answer = change(&*asked.engine.store, request);
    asked.by(limit, &[request], answer).await.map_err(Into::into)
}
