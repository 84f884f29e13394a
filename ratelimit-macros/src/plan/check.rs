//! One check: which rule, whose limiter, how much, and for whom.

use syn::Expr;

use crate::check::key::Key;
use crate::check::rule::Rule;
use crate::check::rule::count::Count;
use crate::check::rule::limits::Limits;
use crate::check::rule::shadow::Shadow;
use crate::check::values::number::Number;
use crate::plan::rule_static::{RuleStatic, limits};

/// The fields stand in the order in which the expressions in them run.
pub(crate) struct Check {
    pub(crate) when: Option<Expr>,
    pub(crate) rule: RuleStatic,
    pub(crate) limiter: Option<Expr>,
    /// The `max` that replaces the static one at each call.
    pub(crate) max: Option<Expr>,
    pub(crate) cost: Option<Number>,
    pub(crate) shadow: Shadow,
    /// Whether the outcome decides if the call counts.
    pub(crate) reserves: bool,
    pub(crate) key: Key,
}

/// The check of `rule`, and which of its outcomes count.
pub(crate) fn plan(rule: Rule) -> (Check, Count) {
    let max = match &rule.limits {
        Limits::One { max: Number::Computed(max), .. } => Some(max.clone()),
        _ => None,
    };
    let reserves = !matches!(rule.count, Count::All);
    let (limits, burst, policy) = limits(rule.limits);
    let rule_static = RuleStatic {
        name: rule.name,
        limits,
        burst,
        policy,
        algorithm: rule.algorithm,
        block_micros: rule.block_micros,
        wait_micros: rule.wait_micros,
        timeout_micros: rule.timeout_micros,
        on_unavailable: rule.on_unavailable,
    };
    let check = Check {
        when: rule.when,
        rule: rule_static,
        limiter: rule.limiter,
        max,
        cost: rule.cost,
        shadow: rule.shadow,
        reserves,
        key: rule.key,
    };
    (check, rule.count)
}
