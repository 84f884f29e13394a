//! [`OutageAnswer`]: what answers checks whose store gave none.

use super::check::Check;
use super::state::Engine;
use crate::decision::{Decision, Source};
use crate::error::{RateLimitError, StoreError, StoreErrorKind};
use crate::observe;
use crate::rule::OnUnavailable;
use crate::store::{Health, Request};

/// What answers a check in place of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutageAnswer {
    /// The fallback: the memory of this process.
    Fallback,
    /// Nothing: the call goes on unchecked.
    Unchecked,
    /// The error itself.
    Error,
}

impl OutageAnswer {
    /// The rows of the table at [`OnUnavailable`].
    fn of(policy: OnUnavailable, kind: StoreErrorKind, health: Health) -> Self {
        let serves = match kind {
            StoreErrorKind::Unavailable => false,
            StoreErrorKind::TimedOut => health == Health::Up,
            // Filling a store must not switch limits off.
            StoreErrorKind::Full => true,
            StoreErrorKind::Misconfigured | StoreErrorKind::Unsupported => return Self::Error,
        };
        match policy {
            OnUnavailable::Allow if serves => Self::Fallback,
            OnUnavailable::Allow => Self::Unchecked,
            OnUnavailable::Local => Self::Fallback,
            OnUnavailable::Deny => Self::Error,
        }
    }
}

/// Why a check, or several, were not let through.
#[derive(Debug)]
pub(super) struct Refused {
    /// The index of the check that refused or failed.
    pub(super) by: usize,
    pub(super) error: RateLimitError,
}

impl Refused {
    pub(super) fn new(by: usize, refusal: Decision) -> Self {
        Self { by, error: RateLimitError::Exceeded(refusal) }
    }
}

/// Nothing if all of these admit.
///
/// # Errors
///
/// The refusal that takes longest to end; the first of several that last equally long.
pub(super) fn admitted_or_longest(decided: impl IntoIterator<Item = (usize, Decision)>) -> Result<(), Refused> {
    let refusals = decided.into_iter().filter(|(_, decision)| !decision.is_allowed());
    match refusals.reduce(|a, b| if b.1.retry_after_us > a.1.retry_after_us { b } else { a }) {
        Some((by, refusal)) => Err(Refused::new(by, refusal)),
        None => Ok(()),
    }
}

impl Engine {
    /// The decisions on checks of one step, whose store gave this error. Those that the fallback
    /// decides are charged together: all or none.
    ///
    /// # Errors
    ///
    /// The longest refusal that is known to hold for one of them, or the error of one that nothing
    /// answers.
    #[cold]
    pub(super) fn decide_without_store(
        &self,
        checks: &[Check<'_>],
        error: StoreError,
    ) -> Result<Vec<Decision>, Refused> {
        let known = checks.iter().enumerate();
        let known = known.filter_map(|(by, check)| Some((by, self.known_refusal(check, &error)?)));
        admitted_or_longest(known)?;
        let answers: Vec<OutageAnswer> = checks.iter().map(|check| self.answer_outage(check, &error)).collect();
        if let Some(by) = answers.iter().position(|answer| *answer == OutageAnswer::Error) {
            return Err(Refused { by, error: error.into() });
        }
        let by_fallback = checks.iter().zip(&answers).filter(|(_, answer)| **answer == OutageAnswer::Fallback);
        let by_fallback: Vec<Request<'_>> = by_fallback.map(|(check, _)| check.request).collect();
        let verdicts = self.fallback.acquire_all(&by_fallback).map_err(|error| Refused { by: 0, error })?;
        let mut verdicts = verdicts.into_iter();
        let decided = checks.iter().zip(answers).map(|(check, answer)| {
            let verdict = if answer == OutageAnswer::Fallback { verdicts.next() } else { None };
            verdict.map_or_else(|| check.unchecked(), |verdict| check.fallback_decision(&verdict))
        });
        Ok(decided.collect())
    }

    /// The refusal that still holds for a check whose store gave this error. A mistake in a setting
    /// is told as what it is, whatever is known.
    pub(super) fn known_refusal(&self, check: &Check<'_>, error: &StoreError) -> Option<Decision> {
        match error.kind() {
            StoreErrorKind::Misconfigured | StoreErrorKind::Unsupported => None,
            StoreErrorKind::TimedOut | StoreErrorKind::Unavailable | StoreErrorKind::Full => {
                self.store.innermost().known_refusal(&check.request).map(|refusal| check.decision(&refusal))
            }
        }
    }

    /// What answers a check in place of the store that gave this error. It is told to the log.
    pub(super) fn answer_outage(&self, check: &Check<'_>, error: &StoreError) -> OutageAnswer {
        let answer = self.outage_answer(check, error);
        match answer {
            OutageAnswer::Fallback => observe::no_answer(check.name, Some(Source::Fallback), error),
            OutageAnswer::Unchecked => observe::no_answer(check.name, Some(Source::Nobody), error),
            OutageAnswer::Error => observe::no_answer(check.name, None, error),
        }
        answer
    }

    /// The same, for a look that decides no call.
    pub(super) fn outage_answer(&self, check: &Check<'_>, error: &StoreError) -> OutageAnswer {
        let health = match error.kind() {
            StoreErrorKind::TimedOut => self.store.innermost().health(&check.request),
            _ => Health::Down,
        };
        let policy = check.terms.on_unavailable.unwrap_or(self.on_unavailable);
        OutageAnswer::of(policy, error.kind(), health)
    }
}
