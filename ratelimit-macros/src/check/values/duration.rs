//! The value of an argument that is a duration: `window`, `block`, `wait`, `prefetch`, `lease`,
//! `timeout`.

use crate::duration::{self, Bounds};
use crate::literal::{as_int, as_str};
use crate::parse::arguments::Argument;

/// The value of `argument` in microseconds.
pub(crate) fn read(argument: &Argument, bounds: &Bounds) -> Result<u64, String> {
    let Argument { name, value } = argument;
    if let Some(literal) = as_str(value) {
        return duration::parse(&literal.value(), bounds);
    }
    Err(
        match as_int(value).map(|number| (number.base10_digits(), number.suffix())) {
            Some((digits, "")) => {
                let advice = duration::with_unit(digits, bounds.usual);
                format!("`{name}` needs a unit: {advice}")
            }
            Some((digits, suffix)) if duration::unit(suffix).is_some() => {
                format!("`{name}` is a string: write \"{digits}{suffix}\"")
            }
            _ => format!(
                "`{name}` is a string literal such as \"60s\" or \"1h 30m\" (units: {})",
                duration::NAMES
            ),
        },
    )
}
