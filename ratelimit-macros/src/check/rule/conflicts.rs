//! Arguments that cannot stand together: each is an error, because no argument is silently ignored.

use syn::Ident;

use crate::check::rule::limits;
use crate::check::values::condition::Shadow;
use crate::diagnostics::Diagnostics;
use crate::literal::as_str;
use crate::parse::arguments::{Argument, Arguments};

/// Reports every argument that another one rules out.
pub(crate) fn report(arguments: &Arguments, shadow: &Shadow, diagnostics: &mut Diagnostics) {
    let Arguments {
        window,
        max,
        limits,
        policy,
        algorithm,
        burst,
        ..
    } = arguments;
    let Arguments {
        block,
        wait,
        prefetch,
        cost,
        count,
        actual_cost,
        concurrent,
        lease,
        ..
    } = arguments;
    if policy.is_some() {
        let numbers = given([window, max, limits, burst]);
        let all = given([window, max, limits, algorithm, burst, block]);
        let own_limits = (!numbers.is_empty()).then_some("limits");
        let own: Vec<_> = [
            own_limits,
            algorithm.is_some().then_some("algorithm"),
            block.is_some().then_some("block"),
        ]
        .into_iter()
        .flatten()
        .map(str::to_owned)
        .collect();
        leave_out(&all, diagnostics, |names| {
            format!(
                "`policy` has its own {}: leave {names} out, or `policy`",
                joined(&own)
            )
        });
    } else if limits.is_some() {
        leave_out(&given([window, max]), diagnostics, |names| {
            format!(
                "`limits` says how much in how long, as in \"3/60s\": leave {names} out, or \
                 `limits`"
            )
        });
        leave_out(&given([burst]), diagnostics, |_| {
            "`burst` goes with `window` and `max`: write an attribute of its own for this limit"
                .to_owned()
        });
    }
    if limits::is_nothing_but_concurrent(arguments) {
        leave_out(
            &given([algorithm, block, prefetch, cost, actual_cost, count]),
            diagnostics,
            |names| {
                format!(
                    "`concurrent` alone limits how many calls are in flight, not how many there \
                     are: leave {names} out, or write `window` and `max` as well"
                )
            },
        );
    }
    if concurrent.is_none() {
        leave_out(&given([lease]), diagnostics, |_| {
            "`lease` is how long a process that dies keeps the permits of its calls in flight: \
             write `concurrent` as well, or leave `lease` out"
                .to_owned()
        });
    }
    if block.is_some() {
        leave_out(&given([wait]), diagnostics, |_| {
            "a call either waits or is blocked: leave `wait` out, or `block`".to_owned()
        });
    }
    if let Some(prefetch) = prefetch {
        report_prefetch(prefetch, arguments, diagnostics);
    }
    if actual_cost.is_some() {
        leave_out(&given([count]), diagnostics, |_| {
            "an outcome either counts or has a cost of its own: leave `count` out, and give a cost \
             of 0 to what does not count"
                .to_owned()
        });
    }
    // Where a policy may say that calls are refused, they may also wait.
    if matches!(shadow, Shadow::On) && policy.is_none() {
        leave_out(&given([wait]), diagnostics, |_| {
            "`wait` is never used: with `shadow` no call is refused, so none waits".to_owned()
        });
    }
}

/// Reports a `prefetch` beside a block, a `count` of outcomes or an actual cost.
fn report_prefetch(prefetch: &Argument, arguments: &Arguments, diagnostics: &mut Diagnostics) {
    let Arguments {
        block,
        count,
        actual_cost,
        ..
    } = arguments;
    if block.is_some() {
        let message = "what another process has taken ahead would block the innocent: leave \
            `prefetch` out, or `block`";
        diagnostics.error(&prefetch.name, message);
    }
    let count = count.as_ref().filter(|count| !is_all(count));
    if let Some(outcome) = count.or(actual_cost.as_ref()) {
        let message = format!(
            "nothing is taken ahead where a call counts only when it is over: leave `prefetch` \
             out, or `{}`",
            outcome.name
        );
        diagnostics.error(&prefetch.name, message);
    }
}

/// `true` if `count` is the default, `"all"`.
fn is_all(count: &Argument) -> bool {
    as_str(&count.value).is_some_and(|outcome| outcome.value() == "all")
}

/// The names of those arguments that are given.
fn given<const N: usize>(arguments: [&Option<Argument>; N]) -> Vec<&Ident> {
    arguments
        .into_iter()
        .flatten()
        .map(|argument| &argument.name)
        .collect()
}

/// One error for all of `names`, on the first of them.
fn leave_out(names: &[&Ident], diagnostics: &mut Diagnostics, why: impl FnOnce(&str) -> String) {
    let quoted: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    if let Some(first) = names.first() {
        diagnostics.error(first, why(&joined(&quoted)));
    }
}

/// `a`, `a and b`, `a, b and c`.
fn joined(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [only] => only.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}
