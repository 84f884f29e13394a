//! [`Check`]: one call's bound rule, key and cost. The meaning of an answer for the call is here
//! too, so that every outcome of a check is observed once, and nowhere else.

use std::sync::Arc;

use super::bound::BoundRule;
use crate::decision::{Decision, Measure, NEVER_US, Source, Status};
use crate::error::RateLimitError;
use crate::observe;
use crate::rule::{Limit, Terms};
use crate::store::{Request, Reserves, Verdict};

/// One check. It borrows all values: most checks are decided before a value would have to be owned.
#[derive(Clone, Copy)]
pub(crate) struct Check<'a> {
    pub(super) bound: &'a Arc<BoundRule>,
    /// The terms of the bound rule, or with another `max`, by the call or by an override.
    pub(super) terms: &'a Terms,
    pub(super) shadow: bool,
    pub(super) request: Request<'a>,
}

impl<'a> Check<'a> {
    #[allow(
        clippy::inline_always,
        reason = "a call to it would cost as much as what it does"
    )]
    #[inline(always)]
    pub(super) fn new(
        bound: &'a Arc<BoundRule>,
        terms: &'a Terms,
        key: &'a [u8],
        cost: u64,
        reserves: Reserves,
        shadow: bool,
    ) -> Self {
        let block = if shadow {
            terms.block.without_offences()
        } else {
            terms.block
        };
        Self {
            bound,
            terms,
            shadow,
            request: Request {
                key,
                rule_len: bound.head.len(),
                algorithm: terms.algorithm(),
                limits: terms.limits(),
                cost,
                block,
                reserves,
                is_sent_again: false,
                timeout_at: None,
                prefetch_us: terms.prefetch_us.unwrap_or(0),
            },
        }
    }

    /// `Ok` if the store supports the check.
    ///
    /// # Errors
    ///
    /// See [`BoundRule::supports`].
    #[inline]
    pub(super) fn ensure_supported(&self) -> Result<(), RateLimitError> {
        self.bound.supports(self.terms, self.request.cost)
    }

    /// `true` if a refused call waits for room.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        !self.shadow && !self.terms.wait().is_zero()
    }
}

/// The form in which a caller gets the outcome of a check. A decision is only made if it is read.
pub(crate) trait Conclusion: Sized {
    fn admitted(decision: impl FnOnce() -> Decision) -> Self;
    fn refused(error: RateLimitError) -> Self;

    fn of(decided: Result<Decision, RateLimitError>) -> Self {
        match decided {
            Ok(decision) => Self::admitted(|| decision),
            Err(error) => Self::refused(error),
        }
    }
}

impl Conclusion for Result<Decision, RateLimitError> {
    #[inline]
    fn admitted(decision: impl FnOnce() -> Decision) -> Self {
        Ok(decision())
    }

    #[inline]
    fn refused(error: RateLimitError) -> Self {
        Err(error)
    }
}

/// A conclusion, or the value needed to wait for it.
impl<T: Conclusion, L> Conclusion for Result<T, L> {
    #[inline]
    fn admitted(decision: impl FnOnce() -> Decision) -> Self {
        Ok(T::admitted(decision))
    }

    #[inline]
    fn refused(error: RateLimitError) -> Self {
        Ok(T::refused(error))
    }
}

impl Check<'_> {
    /// The conclusion of a check that the store has decided.
    #[allow(clippy::inline_always, reason = "as that of `decide_now`")]
    #[inline(always)]
    pub(super) fn conclude_verdict<T: Conclusion>(&self, verdict: &Verdict) -> T {
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

    /// The conclusion of a check, by the store or without it; a refusal may also be given as an
    /// error. In shadow mode a call runs even if it was refused, or if no store decided.
    #[cold]
    pub(super) fn conclude(
        &self,
        decided: Result<Decision, RateLimitError>,
    ) -> Result<Decision, RateLimitError> {
        let decision = match decided {
            Ok(decision) | Err(RateLimitError::Exceeded(decision)) => decision,
            Err(RateLimitError::CostExceedsLimit { .. }) if self.shadow => Decision {
                status: Status::Exceeded,
                retry_after_us: NEVER_US,
                source: Source::Store,
                ..self.unchecked()
            },
            Err(error) if self.shadow => {
                observe::log::shadow_failed(self.bound.name.as_str(), &error);
                self.unchecked()
            }
            Err(error) => {
                observe::failed(self.bound.name, &error);
                return Err(error);
            }
        };
        observe::decision(
            &decision,
            self.terms,
            self.shadow,
            !self.request.is_reservation(),
        );
        if decision.is_allowed() || self.shadow {
            Ok(decision)
        } else {
            Err(RateLimitError::Exceeded(decision))
        }
    }

    /// The decision that admits the call unchecked.
    pub(super) fn unchecked(&self) -> Decision {
        let limit = self.terms.limits().first();
        let (window, capacity) = (limit.map_or(0, Limit::window_us), self.terms.capacity());
        Decision::unchecked(self.bound.name, capacity, window, measure(limit, capacity))
    }

    /// A refusal without asking a store, which lasts `retry_after_us` microseconds.
    pub(super) fn unasked(&self, retry_after_us: u64) -> Decision {
        Decision {
            status: Status::Exceeded,
            retry_after_us,
            reset_after_us: retry_after_us,
            source: Source::DenyCache,
            ..self.unchecked()
        }
    }

    /// The refusal by a block that has just been set.
    pub(super) fn blocked(&self) -> Decision {
        Decision {
            status: Status::Blocked,
            source: Source::Store,
            ..self.unasked(self.request.block.first_us())
        }
    }

    #[allow(clippy::inline_always, reason = "as that of `decide_now`")]
    #[inline(always)]
    pub(super) fn decision(&self, verdict: &Verdict) -> Decision {
        let limit = self.terms.limits().get(verdict.limit_index);
        let capacity = limit.map_or(0, |limit| self.terms.algorithm().capacity(limit));
        Decision {
            rule: self.bound.name,
            limit: capacity,
            window_us: limit.map_or(0, Limit::window_us),
            remaining: verdict.remaining,
            retry_after_us: verdict.retry_after_us,
            reset_after_us: verdict.reset_after_us,
            ticket: verdict.ticket,
            terms_hash: self.bound.terms_hash,
            limit_index: u8::try_from(verdict.limit_index).unwrap_or(u8::MAX),
            source: match (verdict.cached, verdict.allowed) {
                (false, _) => Source::Store,
                (true, true) => Source::Grant,
                (true, false) => Source::DenyCache,
            },
            status: match (verdict.allowed, verdict.blocked) {
                (true, _) => Status::Allowed,
                (false, false) => Status::Exceeded,
                (false, true) => Status::Blocked,
            },
            measure: measure(limit, capacity),
        }
    }

    /// The decision for a verdict of the fallback.
    pub(super) fn fallback_decision(&self, verdict: &Verdict) -> Decision {
        Decision {
            source: Source::Fallback,
            ..self.decision(verdict)
        }
    }
}

/// The kind of number that a decision by this limit reports.
#[inline]
fn measure(limit: Option<&Limit>, capacity: u64) -> Measure {
    match limit {
        Some(limit) if limit.max() != capacity => Measure::Burst,
        Some(limit) if limit.calendar_unit().is_some() => Measure::Calendar,
        _ => Measure::Max,
    }
}
