//! Answers checks whose store gave no answer.

use super::check::Check;
use super::state::Engine;
use crate::decision::{Decision, Source};
use crate::error::{RateLimitError, StoreError, StoreErrorKind};
use crate::observe;
use crate::rule::OnUnavailable;
use crate::store::{Health, Request};

/// Why a check, or several, were not let through.
#[derive(Debug)]
pub(super) struct Refused {
    /// The index of the check that refused or failed.
    pub(super) by: usize,
    pub(super) error: RateLimitError,
}

impl Refused {
    pub(super) fn new(by: usize, refusal: Decision) -> Self {
        Self {
            by,
            error: RateLimitError::Exceeded(refusal),
        }
    }
}

/// Nothing if all of these admit.
///
/// # Errors
///
/// The refusal that takes longest to end; the first of several that last equally long.
pub(super) fn admitted_or_longest(
    decided: impl IntoIterator<Item = (usize, Decision)>,
) -> Result<(), Refused> {
    let refusals = decided
        .into_iter()
        .filter(|(_, decision)| !decision.is_allowed());
    match refusals.reduce(|a, b| {
        if b.1.retry_after_us > a.1.retry_after_us {
            b
        } else {
            a
        }
    }) {
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
    /// The longest refusal that is known to hold for one of them, or the error of a check that gets
    /// no other answer.
    #[cold]
    pub(super) fn decide_without_store(
        &self,
        checks: &[Check<'_>],
        error: StoreError,
    ) -> Result<Vec<Decision>, Refused> {
        let known = checks.iter().enumerate();
        let known = known.filter_map(|(by, check)| Some((by, self.known_refusal(check, &error)?)));
        admitted_or_longest(known)?;
        let sources = checks
            .iter()
            .map(|check| self.answer_outage(check, &error))
            .collect::<Vec<_>>();
        if let Some(by) = sources.iter().position(Option::is_none) {
            return Err(Refused {
                by,
                error: error.into(),
            });
        }
        let is_fallback = |source: &Option<Source>| *source == Some(Source::Fallback);
        let by_fallback = checks
            .iter()
            .zip(&sources)
            .filter(|(_, source)| is_fallback(source));
        let by_fallback: Vec<Request<'_>> = by_fallback.map(|(check, _)| check.request).collect();
        let verdicts = self
            .fallback
            .acquire_all(&by_fallback)
            .map_err(|error| Refused { by: 0, error })?;
        let mut verdicts = verdicts.into_iter();
        let decided = checks.iter().zip(&sources).map(|(check, source)| {
            let verdict = if is_fallback(source) {
                verdicts.next()
            } else {
                None
            };
            verdict.map_or_else(
                || check.unchecked(),
                |verdict| check.fallback_decision(&verdict),
            )
        });
        Ok(decided.collect())
    }

    /// The refusal that still holds for a check whose store gave this error. A mistake in a setting
    /// is an error even if a refusal is known.
    pub(super) fn known_refusal(&self, check: &Check<'_>, error: &StoreError) -> Option<Decision> {
        match error.kind() {
            StoreErrorKind::Misconfigured | StoreErrorKind::Unsupported => None,
            StoreErrorKind::TimedOut | StoreErrorKind::Unavailable | StoreErrorKind::Full => self
                .store
                .innermost()
                .known_refusal(&check.request)
                .map(|refusal| check.decision(&refusal)),
        }
    }

    /// The source that answers a check in place of the store that gave this error: the fallback, or
    /// none, and the call goes on unchecked; `None` where the call gets the error. It is logged.
    pub(super) fn answer_outage(&self, check: &Check<'_>, error: &StoreError) -> Option<Source> {
        let source = self.outage_answer(check, error);
        observe::no_answer(check.name, source, error);
        source
    }

    /// The same, for a look that decides no call: the rows of the table at [`OnUnavailable`].
    pub(super) fn outage_answer(&self, check: &Check<'_>, error: &StoreError) -> Option<Source> {
        let serves = match error.kind() {
            StoreErrorKind::Unavailable => false,
            StoreErrorKind::TimedOut => {
                let health = self.store.innermost().health(&check.request);
                matches!(health, Health::Up | Health::Full)
            }
            // Filling a store must not switch limits off.
            StoreErrorKind::Full => true,
            StoreErrorKind::Misconfigured | StoreErrorKind::Unsupported => return None,
        };
        match check.terms.on_unavailable.unwrap_or(self.on_unavailable) {
            OnUnavailable::Allow if !serves => Some(Source::Nobody),
            OnUnavailable::Allow | OnUnavailable::Local => Some(Source::Fallback),
            OnUnavailable::Deny => None,
        }
    }
}
