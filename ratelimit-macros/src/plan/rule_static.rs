//! What is known of a rule at compile time: a static of the function.

use crate::check::rule::RuleName;
use crate::check::rule::limits::Limits;
use crate::check::rule::limits::list::Limit;
use crate::check::rule::limits::policy::PolicyName;
use crate::check::rule::settings::{Setting, SettingValue};
use crate::check::values::number::Number;

pub(crate) struct RuleStatic {
    pub(crate) name: RuleName,
    /// At least one.
    pub(crate) limits: Vec<Limit>,
    /// Of the first limit.
    pub(crate) burst: Option<u64>,
    pub(crate) settings: Vec<Setting>,
}

/// Where only the call or the policy tells the limit, a limit of 1 stands for it.
pub(crate) fn plan(name: RuleName, limits: Limits, mut settings: Vec<Setting>) -> RuleStatic {
    let (limits, burst) = match limits {
        Limits::One { window_micros, max, burst } => {
            let max = match max {
                Number::Fixed(max) => max,
                Number::Computed(_) => 1,
            };
            (vec![Limit { max, window_micros }], burst)
        }
        Limits::Several(limits) => (limits, None),
        Limits::Policy(policy) => {
            let setting = match policy {
                PolicyName::Fixed(name) => Setting { name: "policy", value: SettingValue::Text(name) },
                PolicyName::Computed(_) => Setting { name: "policy_per_call", value: SettingValue::None },
            };
            settings.insert(0, setting);
            (vec![Limit { max: 1, window_micros: 1_000_000 }], None)
        }
    };
    RuleStatic { name, limits, burst, settings }
}
