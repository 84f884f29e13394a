//! [`Permit`]: a call in flight.

use std::fmt;

use crate::decision::Decision;
use crate::engine::{self, CallPermits, Part};
use crate::error::RateLimitError;

/// The permit of a call in flight; made by [`RateLimiter::enter`](crate::RateLimiter::enter).
///
/// The call ends when its permit is dropped, on any thread, with a runtime or without. For this
/// process the permit is free at once then, and for others as soon as the store is told: on Redis,
/// by the next command of the connection. A permit of a process that dies is free after its
/// [`lease`](crate::Rule::with_lease).
#[must_use = "dropping it ends the call"]
pub struct Permit {
    decision: Decision,
    _permits: CallPermits,
}

impl Permit {
    pub(super) async fn enter(part: Part) -> Result<Self, RateLimitError> {
        if part.permit.is_none() {
            return Err(part.no_concurrent());
        }
        let admitted = engine::acquire([part]).await?;
        Ok(Self {
            decision: admitted.decision()?,
            _permits: admitted.permits,
        })
    }

    /// The decision that let the call in. In [shadow mode](crate::Rule::with_shadow) it may be a
    /// refusal; then no permit is taken.
    #[must_use]
    pub fn decision(&self) -> &Decision {
        &self.decision
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("decision", &self.decision)
            .finish_non_exhaustive()
    }
}
