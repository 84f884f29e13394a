//! What is known of a rule at compile time: a static of the function.

use crate::check::rule::RuleName;
use crate::check::rule::limits::Limits;
use crate::check::rule::limits::list::Limit;
use crate::check::rule::limits::policy::PolicyName;
use crate::check::rule::limits::window::Window;
use crate::check::rule::settings::{Setting, SettingValue};
use crate::check::values::number::Number;

pub(crate) struct RuleStatic {
    pub(crate) name: RuleName,
    /// None where nothing but the calls in flight is limited.
    pub(crate) limits: Vec<Limit>,
    /// How many calls may be in flight, if there is no other limit.
    pub(crate) concurrent: Option<u64>,
    /// Of the first limit.
    pub(crate) burst: Option<u64>,
    pub(crate) settings: Vec<Setting>,
}

/// Where only the call or the policy tells the limit, a limit of 1 stands for it.
pub(crate) fn plan(
    name: RuleName,
    limits: Limits,
    mut settings: Vec<Setting>,
    concurrent: Option<&Number>,
) -> RuleStatic {
    let mut concurrent = concurrent.map(|concurrent| match concurrent {
        Number::Fixed(concurrent) => *concurrent,
        Number::Computed(_) => 1,
    });
    let (limits, burst) = match limits {
        Limits::One { window, max, burst } => {
            let max = match max {
                Number::Fixed(max) => max,
                Number::Computed(_) => 1,
            };
            (vec![Limit { max, window }], burst)
        }
        Limits::Several(limits) => (limits, None),
        Limits::Policy(policy) => {
            let setting = match policy {
                PolicyName::Fixed(name) => Setting { name: "policy", value: SettingValue::Text(name) },
                PolicyName::Computed(_) => Setting { name: "policy_per_call", value: SettingValue::None },
            };
            settings.insert(0, setting);
            (vec![Limit { max: 1, window: Window::Micros(1_000_000) }], None)
        }
        Limits::None => (Vec::new(), None),
    };
    if !limits.is_empty()
        && let Some(concurrent) = concurrent.take()
    {
        settings.insert(0, Setting { name: "concurrent", value: SettingValue::Number(concurrent) });
    }
    RuleStatic { name, limits, concurrent, burst, settings }
}
