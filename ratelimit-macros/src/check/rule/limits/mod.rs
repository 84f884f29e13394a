//! How much in how long: `window` and `max`, `limits`, or `policy`.

pub(crate) mod algorithm;
pub(crate) mod burst;
pub(crate) mod cost;
pub(crate) mod list;
pub(crate) mod policy;

use crate::check::rule::limits::algorithm::Algorithm;
use crate::check::rule::limits::list::Limit;
use crate::check::rule::limits::policy::PolicyName;
use crate::check::values::duration;
use crate::check::values::number::{self, Number};
use crate::diagnostics::Diagnostics;
use crate::duration::WINDOW;
use crate::parse::arguments::Arguments;

pub(crate) enum Limits {
    /// `window` and `max`, perhaps with `burst`.
    One { window_micros: u64, max: Number, burst: Option<u64> },
    /// `limits`: at least one.
    Several(Vec<Limit>),
    /// What the limiter's policy of this name says.
    Policy(PolicyName),
}

/// Reads all of these arguments, also where two of them conflict.
pub(crate) fn read(
    arguments: &Arguments,
    algorithm: Option<Algorithm>,
    diagnostics: &mut Diagnostics,
) -> Option<Limits> {
    let policy = arguments.policy.as_ref().and_then(|argument| policy::read(argument, diagnostics));
    let several = arguments.limits.as_ref().and_then(|argument| list::read(argument, diagnostics));
    if let (Some(argument), Some(limits)) = (&arguments.limits, &several) {
        list::must_all_decide(argument, limits, algorithm, diagnostics);
    }
    let window_micros = arguments.window.as_ref().and_then(|argument| duration::read(argument, &WINDOW, diagnostics));
    let max = arguments.max.as_ref().and_then(|argument| number::max(argument, diagnostics));
    let burst = arguments.burst.as_ref().and_then(|argument| burst::read(argument, diagnostics));
    burst::must_have_bucket(arguments, algorithm, diagnostics);
    let one = || {
        let burst_is_wrong = arguments.burst.is_some() && burst.is_none();
        (!burst_is_wrong).then_some(Limits::One { window_micros: window_micros?, max: max?, burst })
    };
    policy.map(Limits::Policy).or(several.map(Limits::Several)).or_else(one)
}
