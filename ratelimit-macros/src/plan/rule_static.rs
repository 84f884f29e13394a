//! What is known of a rule at compile time: a static of the function.

use syn::LitStr;

use crate::check::rule::RuleName;
use crate::check::rule::limits::Limits;
use crate::check::rule::limits::algorithm::Algorithm;
use crate::check::rule::limits::list::Limit;
use crate::check::rule::on_unavailable::OnUnavailable;
use crate::check::values::number::Number;

pub(crate) struct RuleStatic {
    pub(crate) name: RuleName,
    /// At least one.
    pub(crate) limits: Vec<Limit>,
    /// Of the first limit.
    pub(crate) burst: Option<u64>,
    pub(crate) policy: Option<LitStr>,
    pub(crate) algorithm: Option<Algorithm>,
    pub(crate) block_micros: Option<u64>,
    pub(crate) wait_micros: Option<u64>,
    pub(crate) timeout_micros: Option<u64>,
    pub(crate) on_unavailable: Option<OnUnavailable>,
}

/// What is static of `limits`: the limits, the burst and the policy. Where only the call or the
/// policy tells the limit, a limit of 1 stands for it.
pub(crate) fn limits(limits: Limits) -> (Vec<Limit>, Option<u64>, Option<LitStr>) {
    match limits {
        Limits::One { window_micros, max, burst } => {
            let max = match max {
                Number::Fixed(max) => max,
                Number::Computed(_) => 1,
            };
            (vec![Limit { max, window_micros }], burst, None)
        }
        Limits::Several(limits) => (limits, None, None),
        Limits::Policy(policy) => (vec![Limit { max: 1, window_micros: 1_000_000 }], None, Some(policy)),
    }
}
