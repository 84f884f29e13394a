//! [`PolicyUse`]: how a rule uses a policy, and the mistake if the two do not go together. Uses are
//! remembered, so that a later set of policies that breaks one is refused.

use crate::rule::{Name, Policy, Rule, Terms};
use crate::store::{Capabilities, Feature, Reserves};

/// How a rule uses a policy, unless the policy says otherwise.
#[derive(Clone, Copy, PartialEq)]
pub(in crate::engine) struct PolicyUse {
    rule: Name,
    /// The rule's settings [beside the policy](Terms::beside_policy).
    terms: Terms,
    reserves: Reserves,
}

impl From<&Rule> for PolicyUse {
    fn from(rule: &Rule) -> Self {
        Self {
            rule: rule.names().name,
            terms: rule.terms().beside_policy(),
            reserves: Reserves::Nothing,
        }
    }
}

impl PolicyUse {
    /// The use by calls that reserve like this.
    pub(in crate::engine) fn reserving(self, reserves: Reserves) -> Self {
        Self { reserves, ..self }
    }

    /// `true` if both are alike, whatever their rules are called.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let rule = other.rule;
        Self { rule, ..*self } == *other
    }

    /// The mistake in using the policy of this name on a store with these capabilities, if there is
    /// one.
    pub(in crate::engine) fn mistake(
        &self,
        name: &str,
        policy: &Policy,
        store: &Capabilities,
    ) -> Option<String> {
        let rule = self.rule.as_str();
        let terms = &policy.terms;
        let reserves = self.reserves != Reserves::Nothing;
        let has_permits = self.terms.concurrent.is_some();
        if !has_permits && (terms.concurrent.is_some() || terms.lease.is_some()) {
            return Some(format!(
                "the policy `{name}` is for calls in flight, and the rule `{rule}`, which uses it, \
                 does not keep their permits: give it `concurrent` too, or leave `concurrent` and \
                 `lease` out of the policy"
            ));
        }
        if let Some(mistake) = self.terms.with_policy(terms).mistake(false) {
            return Some(format!(
                "the rule `{rule}`, which uses the policy `{name}`: {mistake} (in the policy, \
                 \"0s\" turns the rule's `wait` or `prefetch` off)"
            ));
        }
        if reserves && !terms.prefetch().is_zero() {
            return Some(format!(
                "the policy `{name}` takes units ahead, and a call of the rule `{rule}`, which uses \
                 it, counts only when it is over: leave `prefetch` out of the policy"
            ));
        }
        let needs = [
            (has_permits, Feature::Concurrent),
            (reserves, Feature::Reserve),
            (self.reserves == Reserves::Estimate, Feature::ActualCost),
        ];
        let needs = needs.into_iter().filter(|(is_needed, _)| *is_needed);
        let mut lacking =
            needs.filter_map(|(_, feature)| store.require(policy.algorithm(), feature).err());
        let lacking = lacking.next()?;
        let why = lacking.message();
        Some(format!(
            "the rule `{rule}` cannot use the policy `{name}`: {why}"
        ))
    }
}
