//! What an answer means for the call. Every outcome of a check passes here once, and is observed
//! here and nowhere else.

use super::check::Check;
use crate::decision::{Decision, Measure, Source, Status};
use crate::error::RateLimitError;
use crate::observe;
use crate::rule::Limit;
use crate::store::{Reserves, Verdict};

/// What becomes of a check.
#[allow(clippy::large_enum_variant, reason = "a call by hand keeps it in its future, and allocates nothing")]
pub(crate) enum Decided<T, W> {
    /// The call may go on.
    Admitted(T),
    /// It may not: it is refused, or the check failed.
    Refused(RateLimitError),
    /// It takes waiting, by [`finish`](super::finish), which needs this. Nothing has been charged
    /// yet.
    Later(W),
}

impl<T, W> From<Result<T, RateLimitError>> for Decided<T, W> {
    #[inline]
    fn from(outcome: Result<T, RateLimitError>) -> Self {
        match outcome {
            Ok(admitted) => Self::Admitted(admitted),
            Err(error) => Self::Refused(error),
        }
    }
}

/// What a caller gets of an admission. A decision is made only for those who look at it.
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

impl Check<'_> {
    /// The outcome of a check that the store has decided.
    #[allow(clippy::inline_always, reason = "as that of `decide`")]
    #[inline(always)]
    pub(super) fn conclude_verdict<T: Admission, W>(&self, verdict: &Verdict) -> Decided<T, W> {
        if observe::listens(verdict.allowed, self.shadow) {
            return self.conclude(Ok(self.decision(verdict))).into();
        }
        // Most often only counted; without the feature `metrics` not even that.
        observe::count(|| self.decision(verdict), self.shadow);
        if verdict.allowed || self.shadow {
            Decided::Admitted(T::of(|| self.decision(verdict)))
        } else {
            Decided::Refused(RateLimitError::Exceeded(self.decision(verdict)))
        }
    }

    /// The outcome of a check, whatever has decided it; a refusal may also be given as an error. In
    /// shadow mode a call runs whatever was decided, and where nothing was.
    #[cold]
    pub(super) fn conclude<T: Admission>(
        &self,
        decided: Result<Decision, RateLimitError>,
    ) -> Result<T, RateLimitError> {
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
        observe::decision(&decision, self.terms, self.shadow, self.reserves == Reserves::Nothing);
        if decision.is_allowed() || self.shadow {
            Ok(T::of(|| decision))
        } else {
            Err(RateLimitError::Exceeded(decision))
        }
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

    #[allow(clippy::inline_always, reason = "as that of `decide`")]
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
