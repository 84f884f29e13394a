//! [`Check`]: everything that one check asks, apart from the engine that answers it; and what an
//! answer means for the call. Every outcome of a check passes here once, and is observed here and
//! nowhere else.

use crate::decision::{Decision, Measure, NEVER_US, Source, Status};
use crate::error::RateLimitError;
use crate::observe;
use crate::rule::{Limit, Name, Terms};
use crate::store::{Request, Reserves, Verdict};

/// One check. It borrows its large parts: most checks are over before any of them would have to be
/// owned.
#[derive(Clone, Copy)]
pub(crate) struct Check<'a> {
    pub(super) name: Name,
    pub(super) terms: &'a Terms,
    pub(super) shadow: bool,
    /// The request to the store.
    pub(super) request: Request<'a>,
    /// Whether the store is known to declare all that the request needs.
    pub(super) is_supported: bool,
    /// The mistake in the check itself, if there is one.
    pub(super) broken: Option<&'a RateLimitError>,
}

/// The settings of one call, apart from its key, that its rule leaves to it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) cost: u64,
    pub(super) reserves: Reserves,
    pub(super) shadow: bool,
}

impl<'a> Check<'a> {
    /// The check of a key, of which the first `rule_len` bytes are those that all keys of the rule
    /// share.
    #[allow(
        clippy::inline_always,
        reason = "a call to it would cost as much as what it does"
    )]
    #[inline(always)]
    pub(super) fn new(
        name: Name,
        terms: &'a Terms,
        asked: Asked,
        key: &'a [u8],
        rule_len: usize,
    ) -> Self {
        let Asked {
            cost,
            reserves,
            shadow,
        } = asked;
        let block = if shadow {
            terms.block.without_offences()
        } else {
            terms.block
        };
        let request = Request::new(key, terms.algorithm(), terms.limits()).with_cost(cost);
        let request = Request {
            rule_len,
            block,
            reserves,
            ..request
        };
        Self {
            name,
            terms,
            shadow,
            request,
            is_supported: false,
            broken: None,
        }
    }

    /// Whether a store may be asked to decide on it; why not, says [`problem`](Self::problem).
    #[inline]
    pub(super) fn is_sound(&self) -> bool {
        self.broken.is_none() && self.terms.most() > 0 && self.request.cost() <= self.terms.most()
    }

    /// The error that is known without asking a store: an unknown policy or time zone, two meanings
    /// of a name, a cost that no window admits.
    #[cold]
    pub(super) fn problem(&self) -> RateLimitError {
        if let Some(error) = self.broken {
            return error.clone();
        }
        let (rule, limit) = (self.name.as_str(), self.capacity());
        if self.terms.is_calendar_misplaced() {
            let algorithm = self.terms.algorithm();
            return RateLimitError::misconfigured(format!(
                "the calendar quota of `{rule}` is kept by `fixed_window` alone, not by `{algorithm}`: set that, or a \
                 window such as 24 hours"
            ));
        }
        let cost = self.request.cost();
        if cost > limit || limit == 0 {
            return RateLimitError::CostExceedsLimit {
                rule,
                cost,
                limit,
                is_of_log: false,
            };
        }
        if self.terms.algorithm().row().is_log && self.terms.most() > 0 {
            let limit = self.terms.most();
            return RateLimitError::CostExceedsLimit {
                rule,
                cost,
                limit,
                is_of_log: true,
            };
        }
        RateLimitError::misconfigured(format!(
            "the bucket of `{rule}` takes more than a century to drain: lower its burst or raise its `max`"
        ))
    }

    /// What the limits admit at once, as refusals tell it: the smallest capacity. Unlike
    /// [`Terms::most`], not 0 of a bucket that takes too long to drain.
    #[inline]
    pub(super) fn capacity(&self) -> u64 {
        self.terms
            .limits()
            .iter()
            .map(|limit| self.terms.algorithm().capacity(limit))
            .min()
            .unwrap_or(0)
    }

    /// Whether a call that is refused may wait for a slot: its rule says `wait`.
    #[inline]
    pub(super) fn may_queue(&self) -> bool {
        !self.shadow && !self.terms.wait.is_zero()
    }
}

/// The form in which a caller gets an outcome. A decision is made only if it looks at that.
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

    /// The outcome of a check, by the store or without it; a refusal may also be given as an error.
    /// In shadow mode a call runs even if it was refused, or if no store decided.
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
                observe::log::shadow_failed(self.name.as_str(), &error);
                self.unchecked()
            }
            Err(error) => {
                observe::failed(self.name, &error);
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

    /// The decision that lets a call through unchecked.
    pub(super) fn unchecked(&self) -> Decision {
        let limit = self.terms.limits().first();
        let (window, measure) = (
            limit.map_or(0, Limit::window_us),
            measure(limit, self.capacity()),
        );
        Decision::unchecked(self.name, self.capacity(), window, measure)
    }

    /// A decision by the fallback.
    pub(super) fn fallback_decision(&self, verdict: &Verdict) -> Decision {
        Decision {
            source: Source::Fallback,
            ..self.decision(verdict)
        }
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
            source: if verdict.cached {
                Source::DenyCache
            } else {
                Source::Store
            },
            status: match (verdict.allowed, verdict.blocked) {
                (true, _) => Status::Allowed,
                (false, false) => Status::Exceeded,
                (false, true) => Status::Blocked,
            },
            measure: measure(limit, capacity),
        }
    }
}

/// How a decision by this limit measures it.
#[inline]
fn measure(limit: Option<&Limit>, capacity: u64) -> Measure {
    match limit {
        Some(limit) if limit.max() != capacity => Measure::Burst,
        Some(limit) if limit.calendar_unit().is_some() => Measure::Calendar,
        _ => Measure::Max,
    }
}
