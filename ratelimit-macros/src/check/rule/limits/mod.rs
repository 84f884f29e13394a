//! How much in how long: `window` and `max`, `limits`, or `policy`; nothing beside `concurrent`.

pub(crate) mod algorithm;
pub(crate) mod burst;
pub(crate) mod cost;
pub(crate) mod list;
pub(crate) mod policy;
pub(crate) mod window;
pub(crate) mod zone;

use crate::check::rule::limits::algorithm::Algorithm;
use crate::check::rule::limits::list::Limit;
use crate::check::rule::limits::policy::PolicyName;
use crate::check::rule::limits::window::Window;
use crate::check::values::number::{self, Number};
use crate::diagnostics::Diagnostics;
use crate::parse::arguments::Arguments;

pub(crate) enum Limits {
    /// `window` and `max`, perhaps with `burst`.
    One { window: Window, max: Number, burst: Option<u64> },
    /// `limits`: at least one.
    Several(Vec<Limit>),
    /// What the limiter's policy of this name says.
    Policy(PolicyName),
    /// None: nothing but the calls in flight is limited.
    None,
}

/// Reads all of these arguments, also where two of them conflict.
pub(crate) fn read(
    arguments: &Arguments,
    algorithm: Option<Algorithm>,
    diagnostics: &mut Diagnostics,
) -> Option<Limits> {
    // A misspelt one may have been any.
    let is_algorithm_known = arguments.algorithm.is_none() || algorithm.is_some();
    let policy = arguments.policy.as_ref().and_then(|argument| policy::read(argument, diagnostics));
    let several = arguments.limits.as_ref().and_then(|argument| list::read(argument, diagnostics));
    if let (Some(argument), Some(limits)) = (&arguments.limits, &several) {
        list::must_all_decide(argument, limits, algorithm, diagnostics);
        if is_algorithm_known {
            list::must_all_be_kept(argument, limits, algorithm, diagnostics);
        }
    }
    let window = arguments.window.as_ref().and_then(|argument| window::read(argument, diagnostics));
    if let (Some(argument), Some(fault)) = (&arguments.window, window.and_then(|window| window.fault(algorithm)))
        && is_algorithm_known
    {
        diagnostics.error(&argument.value, fault);
    }
    let max = arguments.max.as_ref().and_then(|argument| number::max(argument, diagnostics));
    let burst = arguments.burst.as_ref().and_then(|argument| burst::read(argument, diagnostics));
    burst::must_have_bucket(arguments, algorithm, diagnostics);
    let one = || {
        let burst_is_wrong = arguments.burst.is_some() && burst.is_none();
        (!burst_is_wrong).then_some(Limits::One { window: window?, max: max?, burst })
    };
    if is_nothing_but_concurrent(arguments) {
        return Some(Limits::None);
    }
    policy.map(Limits::Policy).or(several.map(Limits::Several)).or_else(one)
}

/// Whether nothing but the calls in flight is limited.
pub(crate) fn is_nothing_but_concurrent(arguments: &Arguments) -> bool {
    let Arguments { concurrent, window, max, limits, policy, .. } = arguments;
    concurrent.is_some() && [window, max, limits, policy].iter().all(|argument| argument.is_none())
}
