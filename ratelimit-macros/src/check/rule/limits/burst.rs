//! `burst`: how much a bucket admits at once.

use crate::check::rule::limits::algorithm::{self, Algorithm};
use crate::check::values::number::{self, Number};
use crate::diagnostics::Diagnostics;
use crate::parse::arguments::{Argument, Arguments};

pub(crate) fn read(argument: &Argument, diagnostics: &mut Diagnostics) -> Option<u64> {
    match number::read(argument, &number::BURST, diagnostics)? {
        Number::Fixed(burst) => Some(burst),
        Number::Computed(expr) => {
            let message = "`burst` is an integer literal, such as `burst = 10`: for one that changes use a `policy`";
            diagnostics.error(expr, message);
            None
        }
    }
}

/// Reports a `burst` of an algorithm that has none. Where `limits` or `policy` is given too, that
/// is the mistake; and a misspelt algorithm may have been one of the buckets.
pub(crate) fn must_have_bucket(arguments: &Arguments, algorithm: Option<Algorithm>, diagnostics: &mut Diagnostics) {
    let Arguments { burst: Some(burst), limits: None, policy: None, .. } = arguments else { return };
    let misspelt = arguments.algorithm.is_some() && algorithm.is_none();
    if !misspelt && !algorithm.is_some_and(|algorithm| algorithm.has_burst) {
        let buckets: Vec<_> = algorithm::with_burst().map(|keyword| format!("\"{keyword}\"`")).collect();
        let message = format!(
            "only the buckets have a burst: write `algorithm = {}, or leave `burst` out",
            buckets.join(" or `")
        );
        diagnostics.error(&burst.name, message);
    }
}
