//! Outages: the answer to a check whose store gave none.

use super::check::Check;
use super::state::Engine;
use crate::decision::{Decision, Source};
use crate::error::{RateLimitError, StoreError, StoreErrorKind};
use crate::rule::OnUnavailable;
use crate::store::{BuiltInStore as _, Health};

/// The reason why a call was not admitted.
#[derive(Debug)]
pub(super) struct Refused {
    /// The index of the part that refused or failed.
    pub(super) by: usize,
    pub(super) error: RateLimitError,
}

impl Refused {
    pub(super) fn new(by: usize, refusal: Decision) -> Self {
        Self::by(by)(RateLimitError::Exceeded(refusal))
    }

    /// Makes a refusal by this part of an error.
    pub(super) fn by<E: Into<RateLimitError>>(by: usize) -> impl Fn(E) -> Self {
        move |error| Self {
            by,
            error: error.into(),
        }
    }
}

/// `Ok` if all decisions admit.
///
/// # Errors
///
/// The refusal that lasts longest, the first of several that last equally long. A missing permit,
/// whose wait is not known, is reported only if nothing else refuses.
pub(super) fn admitted_or_longest(
    decided: impl IntoIterator<Item = (usize, Decision)>,
) -> Result<(), Refused> {
    let refusals = decided
        .into_iter()
        .filter(|(_, decision)| !decision.is_allowed());
    let rank = |refusal: &Decision| (!refusal.is_in_flight_limit(), refusal.retry_after_us);
    let longest = refusals.reduce(|a, b| if rank(&b.1) > rank(&a.1) { b } else { a });
    longest.map_or(Ok(()), |(by, refusal)| Err(Refused::new(by, refusal)))
}

impl Engine {
    /// The refusal of a key that was blocked in this process in an outage, which is over if the
    /// store serves: then nothing is degraded.
    pub(super) fn blocked(&self, check: &Check<'_>) -> Option<Decision> {
        let verdict = self.fallback.blocked(check)?;
        let source = match self.store.health(&check.request) {
            Health::Up => Source::DenyCache,
            Health::Full | Health::Slow | Health::Down => Source::Fallback,
        };
        Some(Decision {
            source,
            ..check.decision(&verdict)
        })
    }

    /// A refusal that still holds for a check whose store gave this error. A mistake in a setting
    /// is an error even if a refusal is known.
    pub(super) fn known_refusal(&self, check: &Check<'_>, error: &StoreError) -> Option<Decision> {
        match error.kind() {
            StoreErrorKind::Misconfigured | StoreErrorKind::Unsupported => None,
            StoreErrorKind::TimedOut | StoreErrorKind::Unavailable | StoreErrorKind::Full => {
                // Its server may be up, and answer that it does not serve.
                let is_away = error.kind() == StoreErrorKind::Unavailable;
                let refusal = self.store.known_refusal(&check.request, is_away);
                refusal.map(|refusal| check.decision(&refusal))
            }
        }
    }

    /// The source that answers a check in place of the store that gave this error: the fallback, or
    /// none, which admits the call unchecked. `None` if the call gets the error. These are the rows
    /// of the table at [`OnUnavailable`].
    pub(super) fn outage_source(&self, check: &Check<'_>, error: &StoreError) -> Option<Source> {
        let serves = match error.kind() {
            StoreErrorKind::Unavailable => false,
            StoreErrorKind::TimedOut => self.serves(check),
            // Filling a store must not switch limits off.
            StoreErrorKind::Full => true,
            StoreErrorKind::Misconfigured | StoreErrorKind::Unsupported => return None,
        };
        match self.policy(check) {
            OnUnavailable::Allow if !serves => Some(Source::Nobody),
            OnUnavailable::Allow | OnUnavailable::Local => Some(Source::Fallback),
            OnUnavailable::Deny => None,
        }
    }

    /// `true` if this check is admitted unchecked now, in an outage of its store.
    pub(super) fn admits_unchecked(&self, check: &Check<'_>) -> bool {
        self.policy(check) == OnUnavailable::Allow && !self.serves(check)
    }

    fn policy(&self, check: &Check<'_>) -> OnUnavailable {
        check.terms.on_unavailable.unwrap_or(self.on_unavailable)
    }

    fn serves(&self, check: &Check<'_>) -> bool {
        let health = self.store.health(&check.request);
        matches!(health, Health::Up | Health::Full)
    }
}
