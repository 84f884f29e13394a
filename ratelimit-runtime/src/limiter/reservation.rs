//! [`Reservation`]: an estimate of a cost, charged until the actual cost is known.

use std::fmt;

use crate::decision::Decision;
use crate::engine::{self, Admitted, Completion, Part};
use crate::error::RateLimitError;
use crate::rule::Limit;

/// An estimate that is charged to a key, or to several; made by
/// [`RateLimiter::reserve`](crate::RateLimiter::reserve) and
/// [`reserve_all`](crate::RateLimiter::reserve_all).
///
/// It ends by [`commit`](Self::commit) or [`release`](Self::release), which return at once.
/// Dropping it commits the estimate, because a cancelled call is not free. A store in memory
/// settles at once; for any other store a task of the current tokio runtime does, or of the
/// reservation's if the current one ends before it runs the task. It tries again after an outage,
/// where that cannot charge twice. A settlement that fails is logged (`unsettled`), and the
/// estimate stays charged until it expires.
#[must_use = "dropping it commits the estimate"]
pub struct Reservation {
    first: Decision,
    admitted: Admitted,
}

impl Reservation {
    pub(super) async fn acquire(
        parts: impl IntoIterator<Item = Part>,
    ) -> Result<Self, RateLimitError> {
        let admitted = engine::acquire(parts).await?;
        Ok(Self {
            first: admitted.decision()?,
            admitted,
        })
    }

    /// The decision that admitted the estimate; of several rules, the first rule's. In [shadow
    /// mode](crate::Rule::with_shadow) it may be a refusal: then nothing is reserved or charged.
    #[must_use]
    pub fn decision(&self) -> &Decision {
        &self.first
    }

    /// The decisions on all rules, in their order.
    #[must_use]
    pub fn decisions(&self) -> &[Decision] {
        &self.admitted.decisions
    }

    /// Charges the actual cost of the call in place of the estimate, to each rule; at most
    /// [`Limit::MAX_COUNT`].
    ///
    /// A lower cost frees the rest of the estimate; a bucket that was charged since keeps what has
    /// drained meanwhile, at most that rest. A higher one is charged on top, also beyond the
    /// limits, which refuse until the excess has left the window or drained. At most twice the
    /// capacity is used that a limit had when the call was admitted; the rest is not charged, but
    /// counted by the metric `ratelimit_cost_dropped_total`. Where the estimate has left a window
    /// meanwhile, all of the cost is charged now.
    pub fn commit(self, actual_cost: u64) {
        self.complete(Completion::CommitActual(actual_cost.min(Limit::MAX_COUNT)));
    }

    /// Gives the estimate back: the call costs nothing.
    pub fn release(self) {
        self.complete(Completion::Release);
    }

    fn complete(self, completion: Completion) {
        for charge in self.admitted.charges.into_iter().flatten() {
            charge.complete(completion);
        }
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation")
            .field("decisions", &self.admitted.decisions)
            .finish_non_exhaustive()
    }
}
