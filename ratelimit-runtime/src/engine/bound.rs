//! [`BoundRule`]: a rule on one limiter.
//!
//! What a call needs to know of its rule is the same for all calls of a rule, a limiter and a set
//! of policies: names, the beginning of stored keys, the terms after policy and time zone, and
//! whether the store can keep them. It is worked out when the rule is first used, so a call does
//! no more than to look it up.

use std::sync::Arc;

use crate::decision::Decision;
use crate::error::RateLimitError;
use crate::rule::{CallsInFlight, Name, Policy, Rule, Terms};
use crate::store::{Capabilities, Feature, Request, Reserves};

/// A rule, as one limiter applies it.
pub(crate) struct BoundRule {
    pub(crate) name: Name,
    /// The beginning of the stored keys, prefix included.
    pub(super) head: Box<[u8]>,
    /// The terms after policy and time zone, before an override of the key.
    pub(super) terms: Terms,
    /// The policy, which may override the terms of single keys.
    pub(super) policy: Option<Arc<Policy>>,
    /// Whether keys and terms of a call are as it gives them: there is no policy, and keys are not
    /// hidden.
    pub(super) is_plain: bool,
    pub(super) concurrent: Option<BoundConcurrent>,
    pub(super) capabilities: Capabilities,
    /// The reason why no check of the rule can be made.
    pub(super) problem: Option<RateLimitError>,
    pub(super) origin: Origin,
}

/// A limit on calls in flight, and the beginning of its stored keys.
pub(super) struct BoundConcurrent {
    pub(super) head: Box<[u8]>,
    pub(super) limit: CallsInFlight,
    /// Whether a policy has set how many, which no call changes.
    pub(super) is_by_policy: bool,
}

/// What a rule was bound from: another call finds it by this.
pub(super) struct Origin {
    pub(super) limiter: u64,
    /// The version of the limiter's policies; 0 where the rule has none.
    pub(super) policies: u64,
    pub(super) terms: Terms,
    pub(super) in_flight: Option<CallsInFlight>,
    pub(super) site: Option<usize>,
}

impl BoundRule {
    /// Whether it was bound on this limiter, whose policies have this version.
    #[inline]
    pub(super) fn is_of(&self, limiter: u64, policies: impl FnOnce() -> u64) -> bool {
        let origin = &self.origin;
        origin.limiter == limiter && (origin.policies == 0 || origin.policies == policies())
    }

    /// Whether it was bound from a rule like this one.
    pub(super) fn is_from(&self, rule: &Rule) -> bool {
        let Origin {
            terms,
            in_flight,
            site,
            ..
        } = &self.origin;
        *site == rule.site() && rule.binds_as(terms, *in_flight)
    }

    /// Whether the first limit of a rule like this one is the same, as a call may change it.
    pub(super) fn has_max_of(&self, rule: &Rule) -> bool {
        self.origin.terms.limits().first() == rule.limits().first()
    }

    /// `Ok` where the store may be asked to decide on a call by these terms, which are the rule's
    /// own or those of its key.
    ///
    /// # Errors
    ///
    /// Why it may not: a mistake in the rule, a feature that the store lacks, or a cost that the
    /// limits never admit. A limit of 0 is a refusal without an end.
    #[inline]
    pub(super) fn may_be_asked(
        &self,
        terms: &Terms,
        cost: u64,
        reserves: Reserves,
    ) -> Result<(), RateLimitError> {
        let most = terms.most();
        let is_decided = self.problem.is_none() && most > 0 && cost <= most;
        if is_decided && reserves == Reserves::Nothing {
            return Ok(());
        }
        self.why_not(terms, cost, reserves)
    }

    #[cold]
    fn why_not(&self, terms: &Terms, cost: u64, reserves: Reserves) -> Result<(), RateLimitError> {
        self.has_no_mistake()?;
        let (rule, capacity, most) = (self.name.as_str(), terms.capacity(), terms.most());
        if terms.is_calendar_misplaced() {
            let algorithm = terms.algorithm();
            return Err(RateLimitError::misconfigured(format!(
                "the calendar quota of `{rule}` is kept by `fixed_window` alone, not by \
                 `{algorithm}`: set that, or a window such as 24 hours"
            )));
        }
        let mut limits = (0..).zip(terms.limits());
        if let Some((index, limit)) = limits.find(|(_, limit)| limit.max() == 0) {
            let refusal = Decision::endless(self.name, limit.window_us());
            return Err(RateLimitError::Exceeded(Decision {
                limit_index: index,
                ..refusal
            }));
        }
        if !terms.limits().is_empty() && cost > capacity {
            return Err(RateLimitError::cost_exceeds(rule, cost, capacity, false));
        }
        if most == 0 {
            return Err(RateLimitError::misconfigured(format!(
                "the bucket of `{rule}` takes more than a century to drain: lower its burst or \
                 raise its `max`"
            )));
        }
        if cost > most {
            return Err(RateLimitError::cost_exceeds(rule, cost, most, true));
        }
        match reserves {
            Reserves::Nothing => Ok(()),
            Reserves::Cost => self.require(Feature::Reserve),
            Reserves::Estimate => self
                .require(Feature::Reserve)
                .and_then(|()| self.require(Feature::ActualCost)),
        }
    }

    /// `Ok` where the rule has no mistake, whatever a call of it costs.
    pub(super) fn has_no_mistake(&self) -> Result<(), RateLimitError> {
        self.problem.clone().map_or(Ok(()), Err)
    }

    /// `Ok` where the store has a feature under the rule's algorithm.
    pub(crate) fn require(&self, feature: Feature) -> Result<(), RateLimitError> {
        let algorithm = self.terms.algorithm();
        Ok(self.capabilities.require(algorithm, feature)?)
    }

    /// Whether the store has a feature under the rule's algorithm.
    pub(super) fn has(&self, feature: Feature) -> bool {
        let algorithm = self.terms.algorithm();
        self.capabilities.supports_feature(algorithm, feature)
    }

    /// The request of a call that uses what every call of the rule does.
    pub(super) fn request(&self) -> Request<'_> {
        let request = Request::new(&[], self.terms.algorithm(), self.terms.limits());
        Request {
            block: self.terms.block,
            ..request
        }
    }
}
