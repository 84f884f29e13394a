//! The words by which decisions are counted and logged. They are few, and none is a key.

use crate::decision::{Decision, Source};
use crate::error::RateLimitError;
#[cfg(feature = "metrics")]
use crate::error::StoreErrorKind;

/// The outcome of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutcomeLabel {
    Allowed,
    /// Admitted, with less than a tenth of the limit left.
    NearLimit,
    Denied,
    Blocked,
    /// Refused by a rule in shadow mode: the call runs.
    ShadowDenied,
    CostExceedsLimit,
    Unavailable,
    Misconfigured,
}

impl OutcomeLabel {
    #[inline]
    pub(super) fn of(decision: &Decision, shadow: bool) -> Self {
        if decision.is_allowed() {
            // Of an unchecked call, the rest of the limit is unknown.
            let is_near = decision.remaining < decision.limit.div_ceil(10)
                && decision.source != Source::Nobody;
            return if is_near {
                Self::NearLimit
            } else {
                Self::Allowed
            };
        }
        match (shadow, decision.is_blocked()) {
            (true, _) => Self::ShadowDenied,
            (false, true) => Self::Blocked,
            (false, false) => Self::Denied,
        }
    }

    pub(super) fn of_error(error: &RateLimitError) -> Self {
        match error {
            RateLimitError::Exceeded(decision) => Self::of(decision, false),
            RateLimitError::CostExceedsLimit { .. } => Self::CostExceedsLimit,
            RateLimitError::Unavailable(_) => Self::Unavailable,
            RateLimitError::Misconfigured(_) => Self::Misconfigured,
        }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::NearLimit => "near_limit",
            Self::Denied => "denied",
            Self::Blocked => "blocked",
            Self::ShadowDenied => "shadow_denied",
            Self::CostExceedsLimit => "cost_exceeds_limit",
            Self::Unavailable => "unavailable",
            Self::Misconfigured => "misconfigured",
        }
    }
}

/// The word for the source of a decision.
pub(super) fn source(source: Source) -> &'static str {
    match source {
        Source::Store => "store",
        Source::DenyCache => "deny_cache",
        Source::Grant => "grant",
        Source::Fallback => "fallback",
        Source::Nobody => "nobody",
    }
}

/// The word for the result of a request to a store.
#[cfg(feature = "metrics")]
pub(super) fn result(error: Option<StoreErrorKind>) -> &'static str {
    match error {
        None => "ok",
        Some(StoreErrorKind::Unavailable) => "unavailable",
        Some(StoreErrorKind::TimedOut) => "timed_out",
        Some(StoreErrorKind::Full) => "full",
        Some(StoreErrorKind::Misconfigured) => "misconfigured",
        Some(StoreErrorKind::Unsupported) => "unsupported",
    }
}
