//! [`OutageAnswer`]: what answers a check whose store gave none.

use super::check::Check;
use super::state::Engine;
use crate::decision::{Decision, Source};
use crate::error::{RateLimitError, StoreError, StoreErrorKind};
use crate::observe;
use crate::rule::OnUnavailable;
use crate::store::Health;

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

impl Engine {
    /// The decision on a check whose store gave this error.
    #[cold]
    pub(super) fn decide_without_store(
        &self,
        check: &Check<'_>,
        error: StoreError,
    ) -> Result<Decision, RateLimitError> {
        if let Some(refusal) = self.known_refusal(check, &error) {
            return Ok(refusal);
        }
        match self.answer_outage(check, &error) {
            OutageAnswer::Unchecked => Ok(check.unchecked()),
            OutageAnswer::Fallback => Ok(check.fallback_decision(&self.fallback.acquire(check.request)?)),
            OutageAnswer::Error => Err(error.into()),
        }
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
