//! [`BoundRule`]: a rule on one limiter.
//!
//! The properties that a call needs of its rule are equal for all calls of a rule, a limiter and a
//! set of policies: names, the beginning of stored keys, the terms after policy and time zone, and
//! whether the store can keep them. They are resolved at the first use, so a call only looks them
//! up.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arc_swap::ArcSwapOption;

use crate::decision::Decision;
use crate::error::RateLimitError;
use crate::rule::{Name, Policy, Rule, Terms};
use crate::store::{Capabilities, Feature, Request, Reserves};

/// A rule, as one limiter applies it.
pub(crate) struct BoundRule {
    pub(crate) name: Name,
    /// The beginning of the stored keys, including the limiter's prefix.
    pub(super) head: Box<[u8]>,
    /// A hash of the head behind the prefix: of algorithm, windows and name.
    pub(super) terms_hash: u32,
    /// The terms after policy and time zone, before an override of the key.
    pub(super) terms: Terms,
    /// The policy, which may override the terms of single keys.
    pub(super) policy: Option<BoundPolicy>,
    /// `true` if calls use their keys and terms unchanged: without a policy, and without hashing
    /// keys.
    pub(super) is_plain: bool,
    /// The beginning of the stored keys of calls in flight, if the rule limits them.
    pub(super) permit_head: Option<Box<[u8]>>,
    pub(super) capabilities: Capabilities,
    /// The reason why no check of the rule can be made.
    pub(super) mistake: Option<RateLimitError>,
    pub(super) origin: Origin,
    /// `true` once the store has noted the rule.
    pub(super) is_noted: AtomicBool,
    /// The rule bound to the limiter's newest policies, once they have changed.
    pub(super) newest: ArcSwapOption<Self>,
}

/// A rule's policy.
pub(super) struct BoundPolicy {
    pub(super) name: Box<str>,
    pub(super) policy: Arc<Policy>,
}

/// The values that a rule was bound from, by which further calls find it.
pub(super) struct Origin {
    pub(super) limiter: u64,
    /// The version of the limiter's policies; 0 where the rule has none.
    pub(super) policies: u64,
    pub(super) terms: Terms,
    /// The address of the rule, if its name is derived from a path.
    pub(super) site: Option<usize>,
    /// The kind of reservation that calls make.
    pub(super) reserves: Reserves,
}

impl BoundRule {
    /// `true` if the rule was bound under this version of its limiter's policies, or without one.
    #[inline]
    pub(super) fn is_current(&self, policies: impl FnOnce() -> u64) -> bool {
        self.origin.policies == 0 || self.origin.policies == policies()
    }

    /// `true` if it was bound from a rule with the settings of `rule`, for calls that reserve like
    /// this.
    pub(super) fn is_from(&self, rule: &Rule, reserves: Reserves) -> bool {
        let origin = &self.origin;
        origin.reserves == reserves
            && origin.site == rule.site()
            && origin.terms.binds_as(rule.terms())
    }

    /// `true` if it was bound from a rule of an explicit name with limits of its own, which are in
    /// force.
    pub(super) fn is_by_hand(&self) -> bool {
        self.origin.site.is_none() && self.policy.is_none() && self.mistake.is_none()
    }

    /// `true` if `rule` has the first limit from which this was bound, which a call may change.
    pub(super) fn has_max_of(&self, rule: &Rule) -> bool {
        self.origin.terms.limits().first() == rule.limits().first()
    }

    /// `Ok` if the store supports a call by these terms, which are the rule's own or those of its
    /// key.
    ///
    /// # Errors
    ///
    /// If there is a mistake in the rule, a feature that the store lacks, or a cost that the limits
    /// never admit. A limit of 0 gives a refusal that never ends.
    #[inline]
    pub(super) fn supports(&self, terms: &Terms, cost: u64) -> Result<(), RateLimitError> {
        let most = terms.most();
        if self.mistake.is_none() && most > 0 && cost <= most {
            return Ok(());
        }
        self.why_not(terms, cost)
    }

    #[cold]
    fn why_not(&self, terms: &Terms, cost: u64) -> Result<(), RateLimitError> {
        self.has_no_mistake()?;
        let (rule, capacity, most) = (self.name.as_str(), terms.capacity(), terms.most());
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
        if cost > most {
            return Err(RateLimitError::cost_exceeds(rule, cost, most, true));
        }
        Ok(())
    }

    /// The mistake in using `policy`, of this `name`, for the rule, if there is one.
    pub(super) fn mistake_under(&self, name: &str, policy: &Policy) -> Option<String> {
        let (rule, terms) = (self.name.as_str(), &policy.terms);
        let Origin {
            terms: own,
            reserves,
            ..
        } = self.origin;
        let has_permits = own.concurrent.is_some();
        if !has_permits && (terms.concurrent.is_some() || terms.lease.is_some()) {
            return Some(format!(
                "the policy `{name}` is for calls in flight, and the rule `{rule}`, which uses it, \
                 does not keep their permits: give it `concurrent` too, or leave `concurrent` and \
                 `lease` out of the policy"
            ));
        }
        if let Some(mistake) = own.with_policy(terms).mistake(false) {
            return Some(format!(
                "the rule `{rule}`, which uses the policy `{name}`: {mistake} (in the policy, \
                 \"0s\" turns the rule's `wait` or `prefetch` off)"
            ));
        }
        if reserves != Reserves::Nothing && !terms.prefetch().is_zero() {
            return Some(format!(
                "the policy `{name}` takes units ahead, and a call of the rule `{rule}`, which uses \
                 it, counts only when it is over: leave `prefetch` out of the policy"
            ));
        }
        let request = Request {
            reserves,
            ..Request::by(terms)
        };
        let mut lacking = self.capabilities.supports(&request);
        if has_permits && lacking.is_ok() {
            lacking = self
                .capabilities
                .require(policy.algorithm(), Feature::Concurrent);
        }
        let why = lacking.err()?;
        Some(format!(
            "the rule `{rule}` cannot use the policy `{name}`: {}",
            why.message()
        ))
    }

    /// `Ok` if the rule has no mistake, whatever the cost of a call.
    pub(super) fn has_no_mistake(&self) -> Result<(), RateLimitError> {
        self.mistake.clone().map_or(Ok(()), Err)
    }

    /// `Ok` if the store has a feature under the rule's algorithm.
    pub(crate) fn require(&self, feature: Feature) -> Result<(), RateLimitError> {
        let algorithm = self.terms.algorithm();
        Ok(self.capabilities.require(algorithm, feature)?)
    }

    /// `true` if the store has a feature under the rule's algorithm.
    pub(super) fn has(&self, feature: Feature) -> bool {
        let algorithm = self.terms.algorithm();
        self.capabilities.supports_feature(algorithm, feature)
    }
}
