//! What an answer means for the call. Every outcome of a check passes here once, and is observed
//! here and nowhere else.

use super::check::Check;
use crate::decision::{Decision, Measure, Source, Status};
use crate::error::RateLimitError;
use crate::observe;
use crate::rule::Limit;
use crate::store::Verdict;

/// What a caller gets of a check. A decision is made only for those who look at it.
pub(crate) trait Outcome: Sized {
    fn admitted(decision: impl FnOnce() -> Decision) -> Self;
    fn refused(error: RateLimitError) -> Self;

    fn of(outcome: Result<Decision, RateLimitError>) -> Self {
        match outcome {
            Ok(decision) => Self::admitted(|| decision),
            Err(error) => Self::refused(error),
        }
    }
}

impl Outcome for Result<Decision, RateLimitError> {
    #[inline]
    fn admitted(decision: impl FnOnce() -> Decision) -> Self {
        Ok(decision())
    }

    #[inline]
    fn refused(error: RateLimitError) -> Self {
        Err(error)
    }
}

/// An outcome, where it is known.
impl<T: Outcome> Outcome for Option<T> {
    #[inline]
    fn admitted(decision: impl FnOnce() -> Decision) -> Self {
        Some(T::admitted(decision))
    }

    #[inline]
    fn refused(error: RateLimitError) -> Self {
        Some(T::refused(error))
    }
}

impl Check<'_> {
    /// The outcome of a check that the store has decided.
    #[allow(clippy::inline_always, reason = "as that of `decide_now`")]
    #[inline(always)]
    pub(super) fn conclude_verdict<T: Outcome>(&self, verdict: &Verdict) -> T {
        if observe::listens(verdict.allowed, self.shadow) {
            return T::of(self.conclude(Ok(self.decision(verdict))));
        }
        // Most often only counted; without the feature `metrics` not even that.
        observe::count(|| self.decision(verdict), self.shadow);
        if verdict.allowed || self.shadow {
            T::admitted(|| self.decision(verdict))
        } else {
            T::refused(RateLimitError::Exceeded(self.decision(verdict)))
        }
    }

    /// The outcome of a check, whatever has decided it; a refusal may also be given as an error. In
    /// shadow mode a call runs whatever was decided, and where nothing was.
    #[cold]
    pub(super) fn conclude(&self, decided: Result<Decision, RateLimitError>) -> Result<Decision, RateLimitError> {
        let decision = match decided {
            Ok(decision) | Err(RateLimitError::Exceeded(decision)) => decision,
            Err(error) if self.shadow => {
                observe::log::shadow_failed(self.name.as_str(), &error);
                self.unchecked()
            }
            Err(error) => {
                observe::failed(self.name, &error);
                return Err(error);
            }
        };
        observe::decision(&decision, self.terms, self.shadow, !self.request.is_reservation());
        if decision.is_allowed() || self.shadow { Ok(decision) } else { Err(RateLimitError::Exceeded(decision)) }
    }

    /// The decision that lets a call through unchecked.
    pub(super) fn unchecked(&self) -> Decision {
        let limit = self.terms.limits().first();
        let (window, measure) = (limit.map_or(0, Limit::window_us), measure(limit, self.capacity()));
        Decision::unchecked(self.name, self.capacity(), window, measure)
    }

    /// A decision by the fallback.
    pub(super) fn fallback_decision(&self, verdict: &Verdict) -> Decision {
        Decision { source: Source::Fallback, ..self.decision(verdict) }
    }

    #[allow(clippy::inline_always, reason = "as that of `decide_now`")]
    #[inline(always)]
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
            measure: measure(limit, capacity),
        }
    }
}

/// What a decision by this limit calls its limit.
#[inline]
fn measure(limit: Option<&Limit>, capacity: u64) -> Measure {
    match limit {
        Some(limit) if limit.max() != capacity => Measure::Burst,
        Some(limit) if limit.calendar_unit().is_some() => Measure::Calendar,
        _ => Measure::Max,
    }
}
