//! The value of `limits`: several limits on one key, as `["3/60s", "20/1d"]`.

use syn::{Error, Expr};

use crate::check::rule::limits::algorithm::Algorithm;
use crate::check::rule::limits::window::Window;
use crate::check::values::number;
use crate::diagnostics::Diagnostics;
use crate::duration;
use crate::literal::{as_str, bare};
use crate::parse::arguments::Argument;

/// One of several limits on one key.
#[derive(Clone, Copy)]
pub(crate) struct Limit {
    pub(crate) max: u64,
    pub(crate) window: Window,
}

/// How many limits one key may have.
const MOST: usize = 8;

pub(crate) fn read(argument: &Argument, diagnostics: &mut Diagnostics) -> Option<Vec<Limit>> {
    let Expr::Array(array) = bare(&argument.value) else {
        let message = match as_str(&argument.value) {
            Some(text) => format!(
                "`limits` is an array: write `limits = [{}]`",
                listed(&text.value())
            ),
            None => {
                "`limits` is an array of string literals: write `limits = [\"3/60s\", \"20/1d\"]`"
                    .to_owned()
            }
        };
        diagnostics.error(&argument.value, message);
        return None;
    };
    if array.elems.is_empty() {
        diagnostics.error(
            array,
            "no limits: write at least one, as in `limits = [\"3/60s\", \"20/1d\"]`",
        );
        return None;
    }
    if let Some(excess) = array.elems.iter().nth(MOST) {
        diagnostics.error(
            excess,
            format!("at most {MOST} limits on one key: write another `#[rate_limit]` for more"),
        );
    }
    let mut read: Vec<Limit> = Vec::new();
    let mut faultless = array.elems.len() <= MOST;
    for element in &array.elems {
        match limit(element, diagnostics) {
            Some(limit) if read.iter().any(|other| other.window == limit.window) => {
                diagnostics.error(
                    element,
                    "another limit has this window, and only the smaller of the two ever decides: \
                     remove one",
                );
                faultless = false;
            }
            Some(limit) => read.push(limit),
            None => faultless = false,
        }
    }
    faultless.then_some(read)
}

/// The elements of an array that `text` lists, as they are written: `"3/1m", "5/1h"`.
fn listed(text: &str) -> String {
    let limits = text
        .split([',', ';'])
        .map(str::trim)
        .filter(|limit| !limit.is_empty());
    let written = |limit: &str| match limit
        .split_once('/')
        .map(|(_, window)| Window::by_calendar(window))
    {
        Some(Ok(Some(_))) => format!("{limit:?}"),
        _ => format!(
            "{:?}",
            duration::limit(limit).unwrap_or_else(|| limit.to_owned())
        ),
    };
    limits.map(written).collect::<Vec<_>>().join(", ")
}

/// Reports each limit, of the value of `argument`, that another one makes useless: over a longer
/// time, that admits no more calls.
pub(crate) fn must_all_decide(
    argument: &Argument,
    limits: &[Limit],
    algorithm: Option<Algorithm>,
    diagnostics: &mut Diagnostics,
) {
    let Expr::Array(array) = bare(&argument.value) else {
        return;
    };
    let most = algorithm.map_or(1, |algorithm| algorithm.times_at_an_edge);
    for (element, limit) in array.elems.iter().zip(limits) {
        let useless = |other: &&Limit| {
            let most = match (limit.window, other.window) {
                // Each of the shorter ones lies in one of the longer, but for weeks.
                (Window::Calendar(shorter), Window::Calendar(_)) => {
                    1 + u64::from(shorter.word == "week")
                }
                // A time of 30 days may begin in January and end in March, with all of February.
                (Window::Micros(_), Window::Calendar(_)) => most + 1,
                _ => most,
            };
            other.window.micros() > limit.window.micros()
                && other.max.saturating_mul(most) <= limit.max
        };
        if let Some(other) = limits.iter().find(useless) {
            let message = format!(
                "this limit never decides, because another one admits {} in a longer window: \
                 remove one, or swap their numbers",
                other.max
            );
            diagnostics.error(element, message);
        }
    }
}

/// Reports each limit, of the value of `argument`, with a window that the algorithm does not keep.
pub(crate) fn must_all_be_kept(
    argument: &Argument,
    limits: &[Limit],
    algorithm: Option<Algorithm>,
    diagnostics: &mut Diagnostics,
) {
    let Expr::Array(array) = bare(&argument.value) else {
        return;
    };
    let mut faults = array
        .elems
        .iter()
        .zip(limits)
        .map(|(element, limit)| (element, limit.window.fault(algorithm)));
    // One is enough for all of them.
    if let Some((element, fault)) = faults.find_map(|(element, fault)| Some((element, fault?))) {
        diagnostics.error(element, fault);
    }
}

fn limit(element: &Expr, diagnostics: &mut Diagnostics) -> Option<Limit> {
    let Some(literal) = as_str(element) else {
        diagnostics.error(
            element,
            "a limit is a string literal, `max/window`: write \"3/60s\"",
        );
        return None;
    };
    diagnostics.keep(spelled(&literal.value()).map_err(|fault| Error::new(literal.span(), fault)))
}

/// The limit that `text` spells, or the error.
fn spelled(text: &str) -> Result<Limit, String> {
    if text.contains([',', ';']) {
        return Err(format!(
            "each limit is a string of its own: write {}",
            listed(text)
        ));
    }
    let Some((max, window)) = text.split_once('/') else {
        return Err("a limit is `max/window`: write \"3/60s\" for 3 in any 60 seconds".to_owned());
    };
    let (max, window) = (max.trim(), window.trim());
    if is_number(window) && duration::parse(max, &duration::WINDOW).is_ok() {
        return Err(format!(
            "the number comes first: did you mean \"{window}/{max}\"?"
        ));
    }
    if !is_number(max) {
        return Err(match max.strip_prefix('-') {
            Some(rest) if is_number(rest) => {
                "a limit cannot be negative: write 1 or more".to_owned()
            }
            None if max.is_empty() => {
                "how many calls? write a number before the `/`, as in \"3/60s\"".to_owned()
            }
            _ => format!(
                "`{max}` is not a number of calls: write a whole number before the `/`, as \
                 in \"3/60s\""
            ),
        });
    }
    let max = max
        .replace('_', "")
        .parse()
        .map_err(|_| number::too_large("limit"))?;
    let zero = "a limit of 0 refuses every call: write 1 or more";
    number::fault(max, "limit", zero).map_or(Ok(()), Err)?;
    if let Some(window) = Window::by_calendar(window)? {
        return Ok(Limit { max, window });
    }
    if let Some(short) = duration::short(window) {
        return Err(format!("how long? write \"{max}/1{short}\""));
    }
    Ok(Limit {
        max,
        window: Window::Micros(duration::parse(window, &duration::WINDOW)?),
    })
}

/// `true` if `text` is digits, with underscores between them as in Rust.
fn is_number(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'_')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::check::rule::limits::algorithm;

    #[test]
    fn limits_takes_up_to_eight() {
        let limits: Vec<_> = (1..=8).map(|n| format!("\"{n}/{n}s\"")).collect();
        let argument = Argument::of(&format!("[{}]", limits.join(", ")));
        let read = read(&argument, &mut Diagnostics::default());
        assert_eq!(read.map(|limits| limits.len()), Some(8));
    }

    #[test]
    fn a_limit_that_never_decides_is_an_error() {
        for (text, keyword, useless) in [
            (r#"["10/60s", "5/1h"]"#, None, 1),
            (r#"["5/1h", "5/60s"]"#, None, 1),
            (r#"["9/1s", "8/1m", "7/1h"]"#, None, 2),
            (r#"["10/60s", "5/1h"]"#, Some("\"token_bucket\""), 1),
            (r#"["9/60s", "5/1h"]"#, Some("\"fixed_window\""), 0),
            (r#"["29/30d", "10/month"]"#, Some("\"fixed_window\""), 0),
            (r#"["30/30d", "10/month"]"#, Some("\"fixed_window\""), 1),
            (r#"["50/day", "40/month"]"#, Some("\"fixed_window\""), 1),
            (r#"["40/day", "50/month"]"#, Some("\"fixed_window\""), 0),
            (r#"["50/week", "40/month"]"#, Some("\"fixed_window\""), 0),
            (r#"["80/week", "40/month"]"#, Some("\"fixed_window\""), 1),
            (r#"["50/day", "40/30d"]"#, Some("\"fixed_window\""), 0),
            (r#"["10/60s", "5/1h"]"#, Some("\"sliding_counter\""), 1),
            (r#"["4/60s", "5/1h"]"#, None, 0),
        ] {
            let argument = Argument::of(text);
            let mut diagnostics = Diagnostics::default();
            let limits = read(&argument, &mut diagnostics).unwrap();
            let algorithm = keyword.map(|keyword| algorithm::read(&Argument::of(keyword)).unwrap());
            must_all_decide(&argument, &limits, algorithm, &mut diagnostics);
            let errors = diagnostics.messages();
            assert_eq!(errors.len(), useless, "{text}: {errors:?}");
        }
    }
}
