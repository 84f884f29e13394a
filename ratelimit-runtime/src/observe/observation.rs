//! [`Observation`]: a decision, and the limits and algorithm it was made by.

use smallvec::SmallVec;

use crate::decision::Decision;
use crate::rule::{Algorithm, Limit, Terms};

/// A decision, and the limits and algorithm it was made by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    decision: Decision,
    algorithm: Algorithm,
    limits: SmallVec<[Limit; 2]>,
    shadow: bool,
    is_settled: bool,
}

impl Observation {
    pub(super) fn new(decision: &Decision, terms: &Terms, shadow: bool, is_settled: bool) -> Self {
        let (algorithm, limits) = (terms.algorithm(), SmallVec::from_slice(terms.limits()));
        Self {
            decision: *decision,
            algorithm,
            limits,
            shadow,
            is_settled,
        }
    }

    /// The decision that was made.
    #[must_use]
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// The algorithm that keeps the limits.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// All limits of the rule, with the `max` that applied to this call, in written order.
    #[must_use]
    pub fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// `true` if `remaining` is final: an admission by `count` or `actual_cost` is settled later.
    #[cfg(feature = "_layer")]
    pub(crate) fn is_settled(&self) -> bool {
        self.is_settled || !self.decision.is_allowed()
    }

    /// `true` if the rule is in shadow mode: the call runs even if the decision is a refusal.
    #[must_use]
    pub fn is_shadow(&self) -> bool {
        self.shadow
    }
}
