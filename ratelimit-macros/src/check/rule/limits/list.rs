//! The value of `limits`: several limits on one key, as `["3/60s", "20/1d"]`.

use syn::{Expr, LitStr};

use crate::check::rule::limits::algorithm::Algorithm;
use crate::check::rule::limits::window::Window;
use crate::check::values::number;
use crate::diagnostics::Diagnostics;
use crate::duration::{self, is_number};
use crate::literal::{as_str, bare};
use crate::parse::arguments::Argument;

/// One of several limits on one key.
#[derive(Clone, Copy)]
pub(crate) struct Limit {
    pub(crate) max: u64,
    pub(crate) window: Window,
}

/// The most limits of one key.
const MOST: usize = 8;

const EXAMPLE: &str = "`limits = [\"3/60s\", \"20/1d\"]`";

/// The limits, all of which decide and are kept by `algorithm`, unless that is misspelt.
pub(crate) fn read(
    argument: &Argument,
    algorithm: Option<Algorithm>,
    diagnostics: &mut Diagnostics,
) -> Option<Vec<Limit>> {
    let Expr::Array(array) = bare(&argument.value) else {
        let limits = as_str(&argument.value).map(|text| listed(&text.value()));
        let message = match limits {
            Some(limits) => format!("`limits` is an array: write `limits = [{limits}]`"),
            None => format!("`limits` is an array of string literals: write {EXAMPLE}"),
        };
        diagnostics.error(&argument.value, message);
        return None;
    };
    if array.elems.is_empty() {
        diagnostics.error(
            array,
            format!("no limits: write at least one, as in {EXAMPLE}"),
        );
        return None;
    }
    let excess = array.elems.iter().nth(MOST);
    if let Some(excess) = excess {
        diagnostics.error(
            excess,
            format!("at most {MOST} limits on one key: write another `#[rate_limit]` for more"),
        );
    }
    let mut read: Vec<Limit> = Vec::new();
    for element in &array.elems {
        match spelled(element) {
            Ok(limit) if read.iter().any(|other| other.window == limit.window) => diagnostics
                .error(
                    element,
                    "another limit has this window, and only the smaller of the two ever decides: \
                 remove one",
                ),
            Ok(limit) => read.push(limit),
            Err(fault) => diagnostics.error(element, fault),
        }
    }
    if excess.is_some() || read.len() < array.elems.len() {
        return None;
    }
    for (element, limit) in array.elems.iter().zip(&read) {
        let longer = read.iter().find(|other| other.rules_out(limit, algorithm));
        if let Some(longer) = longer {
            let message = format!(
                "this limit never decides, because another one admits {} in a longer window: \
                 remove one, or swap their numbers",
                longer.max
            );
            diagnostics.error(element, message);
        }
    }
    // One of these is enough for all limits.
    let mut elements = array.elems.iter().zip(&read);
    if let Some(algorithm) = algorithm
        && let Some((element, fault)) =
            elements.find_map(|(element, limit)| Some((element, limit.window.fault(algorithm)?)))
    {
        diagnostics.error(element, fault);
    }
    Some(read)
}

impl Limit {
    /// `true` if it makes `other` useless: over a longer time, it admits no more calls.
    fn rules_out(&self, other: &Self, algorithm: Option<Algorithm>) -> bool {
        let most = algorithm.map_or(1, |algorithm| algorithm.times_at_an_edge);
        let most = match (other.window, self.window) {
            // Each of the shorter ones lies in one of the longer, but for weeks.
            (Window::Calendar(shorter), Window::Calendar(_)) => {
                1 + u64::from(shorter.word == "week")
            }
            // A time of 30 days may begin in January and end in March, with all of February.
            (Window::Micros(_), Window::Calendar(_)) => most + 1,
            _ => most,
        };
        self.window.micros() > other.window.micros() && self.max.saturating_mul(most) <= other.max
    }
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

/// The limit that `element` spells, or the error.
fn spelled(element: &Expr) -> Result<Limit, String> {
    let Some(text) = as_str(element).map(LitStr::value) else {
        return Err("a limit is a string literal, `max/window`: write \"3/60s\"".to_owned());
    };
    if text.contains([',', ';']) {
        return Err(format!(
            "each limit is a string of its own: write {}",
            listed(&text)
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
        return Err(format!(
            "`{text}` has no number of calls before the `/`: write 1 or more, as in \"3/60s\""
        ));
    }
    let zero = "a limit of 0 refuses every call: write 1 or more";
    let max = number::counted(&max.replace('_', ""), "limit", zero)?;
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::check::rule::limits::algorithm;

    #[test]
    fn limits_takes_up_to_eight() {
        let limits: Vec<_> = (1..=8).map(|n| format!("\"{n}/{n}s\"")).collect();
        let argument = Argument::of(&format!("[{}]", limits.join(", ")));
        let read = read(&argument, None, &mut Diagnostics::default());
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
            let algorithm = keyword.map(|keyword| algorithm::read(&Argument::of(keyword)).unwrap());
            read(&argument, algorithm, &mut diagnostics).unwrap();
            let errors = diagnostics.messages();
            assert_eq!(errors.len(), useless, "{text}: {errors:?}");
        }
    }
}
