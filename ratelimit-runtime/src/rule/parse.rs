//! Rules as text: what attributes and configurations write, read back.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use smallvec::SmallVec;

use super::algorithm::Algorithm;
use super::limit::{Limit, MAX_LIMITS};
use super::on_unavailable::OnUnavailable;
use super::policy::Policy;

/// What is wrong with a limit, a policy, or a part of one that was given as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError(String);

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ParseError {}

pub(super) fn error<T>(message: impl Into<String>) -> Result<T, ParseError> {
    Err(ParseError(message.into()))
}

/// `max/window`: `5/1m`, `1000/1h 30m`.
impl FromStr for Limit {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let Some((max, window)) = text.split_once('/') else {
            return error(format!("`{text}` is not a limit: write a number, a slash and a window, such as \"5/1m\""));
        };
        let Ok(max) = max.trim().replace('_', "").parse::<u64>() else {
            return error(format!("`{}` in the limit `{text}` is not a whole number", max.trim()));
        };
        if max == 0 {
            return error(format!("the limit `{text}` admits nothing"));
        }
        Self::try_new(max, duration(window)?).or_else(|why| error(format!("in the limit `{text}`, {why}")))
    }
}

/// What [`FromStr`] reads: `5/60s`. A burst is not part of it.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}", self.max(), super::name::Window(self.window_us())))
    }
}

/// Limits on one key, separated by commas: `5/1m, 50/1d`.
impl FromStr for Policy {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let limits = text.split(',').map(|limit| limit.trim().parse()).collect::<Result<_, _>>()?;
        of_limits(limits)
    }
}

pub(super) fn of_limits(limits: SmallVec<[Limit; 2]>) -> Result<Policy, ParseError> {
    match limits.len() {
        0 => error("a policy has at least one limit"),
        1..=MAX_LIMITS => Ok(Policy { algorithm: Algorithm::default(), limits, block: Duration::ZERO }),
        more => error(format!("a policy has at most {MAX_LIMITS} limits, not {more}")),
    }
}

impl FromStr for Algorithm {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        one_of("algorithm", text, &Self::ALL)
    }
}

impl FromStr for OnUnavailable {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        one_of("answer for when the store is unavailable", text, &Self::ALL)
    }
}

fn one_of<T: Copy + fmt::Display>(what: &str, text: &str, all: &[T]) -> Result<T, ParseError> {
    let known = |candidate: &&T| candidate.to_string() == text;
    if let Some(found) = all.iter().find(known) {
        return Ok(*found);
    }
    let names: Vec<String> = all.iter().map(ToString::to_string).collect();
    error(format!("there is no {what} `{text}`: {}", names.join(", ")))
}

/// The units of a duration, each with its names, as the attribute knows them. Months and years are not among them,
/// because their length varies.
const UNITS: [&[&str]; 7] = [
    &["us", "µs", "usec", "usecs"],
    &["ms", "msec", "msecs", "millisecond", "milliseconds"],
    &["s", "sec", "secs", "second", "seconds"],
    &["m", "min", "mins", "minute", "minutes"],
    &["h", "hr", "hrs", "hour", "hours"],
    &["d", "day", "days"],
    &["w", "week", "weeks"],
];

/// `60s`, `1h 30m`: whole numbers with units, each unit once.
pub(super) fn duration(text: &str) -> Result<Duration, ParseError> {
    let text = text.trim();
    let wrong = |why: String| error(format!("`{text}` is not a duration such as \"60s\" or \"1h 30m\": {why}"));
    if text.contains(['.', ',', '-', '+']) {
        return wrong("it takes whole numbers".to_owned());
    }
    let mut seen = Vec::new();
    for word in text.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty()) {
        match UNITS.iter().position(|names| names.contains(&word)) {
            None => return wrong(format!("there is no unit `{word}` among us, ms, s, m, h, d, w")),
            Some(unit) if seen.contains(&unit) => return wrong(format!("it has the unit `{word}` twice")),
            Some(unit) => seen.push(unit),
        }
    }
    // The library knows `µs` by its other names only.
    humantime::parse_duration(&text.replace("µs", "us")).or_else(|cause| wrong(cause.to_string()))
}
