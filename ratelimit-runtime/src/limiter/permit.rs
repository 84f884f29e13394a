//! [`Permit`]: a call in flight that is limited by hand, without the attribute.

use std::fmt;

use smallvec::SmallVec;

use crate::decision::Decision;
use crate::engine::{self, CallPermits, Part};
use crate::error::RateLimitError;

/// The permit of a call in flight, or its permits of several rules; made by
/// [`RateLimiter::enter`](crate::RateLimiter::enter) and
/// [`enter_all`](crate::RateLimiter::enter_all).
///
/// The call ends when its permit is dropped, on any thread, with a runtime or without. For this
/// process the permit is free at once then, and for others as soon as the store is told: on Redis,
/// by the next command of the connection. If its process or its tokio runtime ends first, it is
/// free after its [`lease`](crate::Rule::with_lease).
#[must_use = "dropping it ends the call"]
pub struct Permit {
    first: Decision,
    decisions: SmallVec<[Decision; 1]>,
    _permits: CallPermits,
}

impl Permit {
    pub(super) async fn acquire(
        parts: impl IntoIterator<Item = Part> + AsRef<[Part]>,
    ) -> Result<Self, RateLimitError> {
        let asked = parts.as_ref();
        let keeps_none = asked.iter().all(|part| part.permit.is_none());
        if let Some(first) = asked.first().filter(|_| keeps_none) {
            return Err(first.no_concurrent());
        }
        let admitted = engine::acquire(parts).await?;
        Ok(Self {
            first: admitted.decision()?,
            decisions: admitted.decisions,
            _permits: admitted.permits,
        })
    }

    /// The decision that admitted the call; of several rules, the first rule's. In [shadow
    /// mode](crate::Rule::with_shadow) it may be a refusal: then no permit is acquired.
    #[must_use]
    pub fn decision(&self) -> &Decision {
        &self.first
    }

    /// The decisions on all rules, in their order.
    #[must_use]
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("decisions", &self.decisions)
            .finish_non_exhaustive()
    }
}
