//! The limits of a rule: `window` and `max`, `limits`, or `policy`. Beside `concurrent` a rule
//! needs none.

pub(crate) mod algorithm;
pub(crate) mod list;
pub(crate) mod policy;
pub(crate) mod window;
pub(crate) mod zone;

use syn::Expr;

use crate::check::function::scope::Scope;
use crate::check::rule::limits::algorithm::Algorithm;
use crate::check::rule::limits::list::Limit;
use crate::check::rule::limits::policy::PolicyName;
use crate::check::rule::limits::window::Window;
use crate::check::values::number::{self, Number};
use crate::diagnostics::Diagnostics;
use crate::duration::SECOND;
use crate::parse::arguments::{Argument, Arguments};

#[derive(Default)]
pub(crate) struct Limits {
    /// The limits in the rule. Where only the call or the policy tells the limit, a limit of 1
    /// stands for it. Empty if only the calls in flight are limited.
    pub(crate) fixed: Vec<Limit>,
    /// The burst of the first limit.
    pub(crate) burst: Option<u64>,
    /// The `max` that replaces the fixed one at each call.
    pub(crate) max: Option<Expr>,
    /// The name of the limiter's policy that holds the limits, if one does.
    pub(crate) policy: Option<PolicyName>,
}

impl Limits {
    /// The `max` of each limit that is written out.
    pub(crate) fn literal_maxima(&self) -> impl Iterator<Item = u64> {
        let known = self.max.is_none() && self.policy.is_none();
        self.fixed
            .iter()
            .filter(move |_| known)
            .map(|limit| limit.max)
    }

    /// The shortest window, in microseconds; `None` where a policy has it.
    pub(crate) fn shortest_window(&self) -> Option<u64> {
        let windows = self.fixed.iter().map(|limit| limit.window.micros());
        windows.min().filter(|_| self.policy.is_none())
    }
}

/// Reads all of these arguments, also where two of them conflict. `algorithm` is `None` where it is
/// misspelt.
pub(crate) fn read(
    arguments: &Arguments,
    algorithm: Option<Algorithm>,
    scope: &Scope,
    diagnostics: &mut Diagnostics,
) -> Option<Limits> {
    let policy = arguments
        .policy
        .as_ref()
        .and_then(|argument| policy::read(argument, scope, diagnostics));
    let several = arguments
        .limits
        .as_ref()
        .and_then(|argument| list::read(argument, algorithm, diagnostics));
    let window = diagnostics.read(arguments.window.as_ref(), window::read);
    if let (Some(argument), Some(window), Some(algorithm)) = (&arguments.window, window, algorithm)
        && let Some(fault) = window.fault(algorithm)
    {
        diagnostics.error(&argument.value, fault);
    }
    let max = diagnostics.read(arguments.max.as_ref(), |max| {
        number::read(max, &number::MAX)
    });
    let burst = diagnostics.read(arguments.burst.as_ref(), burst);
    // Where `limits` or `policy` is given too, the mistake is that.
    if let (Some(burst), None, None) = (&arguments.burst, &arguments.limits, &arguments.policy)
        && algorithm.is_some_and(|algorithm| !algorithm.has_burst)
    {
        let message = "only the buckets have a burst: write `algorithm = \"token_bucket\"` or \
            `\"leaky_bucket\"`, or leave `burst` out";
        diagnostics.error(&burst.name, message);
    }
    if is_nothing_but_concurrent(arguments) {
        return Some(Limits::default());
    }
    if policy.is_some() {
        let fixed = vec![Limit {
            max: 1,
            window: Window::Micros(SECOND),
        }];
        return Some(Limits {
            fixed,
            policy,
            ..Limits::default()
        });
    }
    if let Some(fixed) = several {
        return Some(Limits {
            fixed,
            ..Limits::default()
        });
    }
    if arguments.burst.is_some() {
        burst?;
    }
    let (window, max) = (window?, max?);
    let (fixed, max) = match max {
        Number::Fixed(max) => (max, None),
        Number::Computed(max) => (1, Some(max)),
    };
    Some(Limits {
        fixed: vec![Limit { max: fixed, window }],
        burst,
        max,
        policy: None,
    })
}

fn burst(argument: &Argument) -> Result<u64, String> {
    match number::read(argument, &number::BURST)? {
        Number::Fixed(burst) => Ok(burst),
        Number::Computed(_) => Err(
            "`burst` is an integer literal, such as `burst = 10`: for one \
            that changes use a `policy`"
                .to_owned(),
        ),
    }
}

/// `true` if only the calls in flight are limited.
pub(crate) fn is_nothing_but_concurrent(arguments: &Arguments) -> bool {
    let Arguments {
        concurrent,
        window,
        max,
        limits,
        policy,
        ..
    } = arguments;
    concurrent.is_some()
        && [window, max, limits, policy]
            .iter()
            .all(|argument| argument.is_none())
}
