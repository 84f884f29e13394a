//! [`PolicyUse`]: how a rule uses a policy, and the mistake if the two do not go together.

use std::time::Duration;

use crate::rule::{Name, Policy, Rule};
use crate::store::{Capabilities, Feature, Reserves};

/// How a rule uses a policy, unless the policy says otherwise.
#[derive(Clone, Copy, PartialEq)]
pub(in crate::engine) struct PolicyUse {
    rule: Name,
    waits: bool,
    /// `true` if the rule keeps permits of calls in flight.
    has_permits: bool,
    /// The lease of units that the rule takes ahead.
    prefetch: Duration,
    reserves: Reserves,
}

impl From<&Rule> for PolicyUse {
    fn from(rule: &Rule) -> Self {
        let terms = rule.terms();
        Self {
            rule: rule.names().name,
            waits: !terms.wait.is_zero(),
            has_permits: rule.in_flight_limit().is_some(),
            prefetch: terms.prefetch(),
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
        let reserves = self.reserves != Reserves::Nothing;
        if self.waits && policy.stops_waiting() {
            return Some(format!(
                "the policy `{name}` blocks, and the rule `{rule}`, which uses it, waits: a call \
                 either waits or is blocked: leave `block` out, or write `wait = \"0s\"` in the \
                 policy"
            ));
        }
        if !self.has_permits && policy.needs_permits() {
            return Some(format!(
                "the policy `{name}` is for calls in flight, and the rule `{rule}`, which uses it, \
                 does not keep their permits: give it `concurrent` too, or leave `concurrent` and \
                 `lease` out of the policy"
            ));
        }
        if let Some(mistake) = policy.prefetch_mistake(self.prefetch) {
            return Some(format!(
                "the rule `{rule}`, which uses the policy `{name}`, takes units ahead: {mistake}, \
                 or write `prefetch = \"0s\"` in the policy"
            ));
        }
        if reserves && policy.takes_ahead() {
            return Some(format!(
                "the policy `{name}` takes units ahead, and a call of the rule `{rule}`, which uses \
                 it, counts only when it is over: leave `prefetch` out of the policy"
            ));
        }
        let needs = [
            (self.has_permits, Feature::Concurrent),
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
