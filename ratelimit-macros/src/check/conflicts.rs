//! Arguments that cannot stand together.

use syn::Ident;

use crate::check::shadow::Shadow;
use crate::diagnostics::Diagnostics;
use crate::parse::argument::Argument;
use crate::parse::arguments::Arguments;

/// Reports every argument that another one rules out.
pub(crate) fn report(arguments: &Arguments, shadow: &Shadow, diagnostics: &mut Diagnostics) {
    let Arguments { window, max, limits, policy, algorithm, burst, block, wait, .. } = arguments;
    let mut leave_out = |argument: &Option<Argument>, why: &dyn Fn(&Ident) -> String| {
        if let Some(Argument { name, .. }) = argument {
            diagnostics.error(name, why(name));
        }
    };
    if policy.is_some() {
        for argument in [window, max, limits, algorithm, burst, block] {
            leave_out(argument, &|name| format!("the limiter's policy says this: leave `{name}` out, or `policy`"));
        }
    } else if limits.is_some() {
        for argument in [window, max] {
            leave_out(argument, &|name| {
                format!("`limits` says how much in how long, as in \"3/60s\": leave `{name}` out, or `limits`")
            });
        }
        leave_out(burst, &|_| {
            "`burst` goes with `window` and `max`: write an attribute of its own for this limit".to_owned()
        });
    }
    if block.is_some() {
        leave_out(wait, &|_| "a call either waits or is blocked: leave `wait` out, or `block`".to_owned());
    }
    if matches!(shadow, Shadow::On) {
        leave_out(wait, &|_| "`wait` is never used: with `shadow` no call is refused, so none waits".to_owned());
    }
}
