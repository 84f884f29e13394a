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
/// It ends by [`commit`](Self::commit) or [`release`](Self::release). A reservation that is dropped
/// is committed as estimated: a call that is cancelled is not free. Both return at once: a store in
/// memory is told at once as well, any other by a task of the current tokio runtime, again where it
/// does not answer, once it is back. A settlement that fails is logged (`unsettled`), and the
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

    /// The decision that admitted the estimate, of several rules that of the first. In
    /// [shadow mode](crate::Rule::with_shadow) it may be a refusal; then nothing is reserved, and
    /// nothing will be charged.
    #[must_use]
    pub fn decision(&self) -> &Decision {
        &self.first
    }

    /// The decisions on all rules, in their order.
    #[must_use]
    pub fn decisions(&self) -> &[Decision] {
        &self.admitted.decisions
    }

    /// Charges the actual cost of the call in place of the estimate, to each rule; more than
    /// [`Limit::MAX_COUNT`] means that.
    ///
    /// A lower cost frees the rest of the estimate. A higher one is charged on top, also beyond the
    /// limits: they refuse until it has left or drained. After that at most twice the capacity of a
    /// limit is used of it; the rest is not charged, and counted by the metric
    /// `ratelimit_cost_dropped_total`. Where the estimate has left a window meanwhile, all of the
    /// cost is charged now.
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
