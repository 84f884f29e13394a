//! One check: which rule, whose limiter, how much, and for whom.

use syn::Expr;

use crate::check::rule::count::Count;
use crate::check::rule::limits::Limits;
use crate::check::rule::limits::policy::PolicyName;
use crate::check::rule::{Call, Rule};
use crate::check::values::number::Number;
use crate::plan::rule_static::{self, RuleStatic};

pub(crate) struct Check {
    pub(crate) rule: RuleStatic,
    /// The `max` that replaces the static one at each call.
    pub(crate) max: Option<Expr>,
    /// The name of the policy of each call, where that is no literal.
    pub(crate) policy: Option<Expr>,
    /// Whether the outcome decides if the call counts, or what it costs.
    pub(crate) reserves: bool,
    /// Whether the outcome decides what it costs.
    pub(crate) estimates: bool,
    pub(crate) call: Call,
}

/// The check of `rule`, and which of its outcomes count.
pub(crate) fn plan(rule: Rule) -> (Check, Count) {
    let Rule { name, limits, settings, count, call } = rule;
    let (max, policy) = match &limits {
        Limits::One { max: Number::Computed(max), .. } => (Some(max.clone()), None),
        Limits::Policy(PolicyName::Computed(policy)) => (None, Some(policy.clone())),
        _ => (None, None),
    };
    let (reserves, estimates) = (!matches!(count, Count::All), matches!(count, Count::ByCost(_)));
    (Check { rule: rule_static::plan(name, limits, settings), max, policy, reserves, estimates, call }, count)
}
