//! Rules as text: what attributes and configurations write, read back.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use smallvec::SmallVec;

use super::algorithm::Algorithm;
use super::limit::{Limit, MAX_LIMITS, MAX_WINDOW};
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
        let Some(max) = count(max) else {
            return error(format!("`{}` in the limit `{text}` is not a whole number", max.trim()));
        };
        if max == 0 {
            return error(format!("the limit `{text}` admits nothing"));
        }
        Self::try_new(max, duration(window)?).or_else(|why| error(format!("in the limit `{text}`, {why}")))
    }
}

/// `1_000`
fn count(text: &str) -> Option<u64> {
    text.trim().replace('_', "").parse().ok()
}

/// What [`FromStr`] reads: `5/60s`. A burst is not part of it.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}", self.max(), super::name::Window(self.window_us())))
    }
}

/// A policy as one line: limits on one key, separated by commas, behind an algorithm and before a burst and a block.
///
/// ```
/// use std::time::Duration;
/// use ratelimit_runtime::{Algorithm, Limit, Policy};
///
/// assert_eq!("5/1m, 50/1d".parse(), Ok(Policy::new(Limit::per_minute(5)).and(Limit::per_day(50))));
/// let upload = Policy::new(Limit::per_second(10).with_burst(50))
///     .with_algorithm(Algorithm::TokenBucket)
///     .with_block(Duration::from_secs(600));
/// assert_eq!("token_bucket 10/1s burst 50 block 10m".parse(), Ok(upload));
/// ```
impl FromStr for Policy {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let (algorithm, rest) = match text.split_once(' ') {
            Some((word, rest)) if word.starts_with(char::is_alphabetic) => (Some(word), rest),
            _ => (None, text.as_str()),
        };
        let (rest, block) = with_option(rest, " block ");
        let (limits, burst) = with_option(rest, " burst ");
        let burst = match burst.map(count) {
            Some(None) => return error(format!("in `{text}`, `burst` is not followed by a whole number")),
            burst => burst.flatten(),
        };
        Self::assembled(limits_of(limits)?, algorithm, burst, block)
    }
}

/// What stands before and behind a word.
fn with_option<'a>(text: &'a str, word: &str) -> (&'a str, Option<&'a str>) {
    text.split_once(word).map_or((text, None), |(before, value)| (before, Some(value)))
}

/// `5/1m, 50/1d`
pub(super) fn limits_of(text: &str) -> Result<SmallVec<[Limit; 2]>, ParseError> {
    text.split(',').map(|limit| limit.trim().parse()).collect()
}

impl Policy {
    /// The policy of these parts, where they go together.
    pub(super) fn assembled(
        mut limits: SmallVec<[Limit; 2]>,
        algorithm: Option<&str>,
        burst: Option<u64>,
        block: Option<&str>,
    ) -> Result<Self, ParseError> {
        match limits.len() {
            0 => return error("a policy has at least one limit"),
            1..=MAX_LIMITS => {}
            more => return error(format!("a policy has at most {MAX_LIMITS} limits, not {more}")),
        }
        let algorithm = algorithm.map_or(Ok(Algorithm::default()), str::parse)?;
        if let Some(burst) = burst {
            if !matches!(algorithm, Algorithm::TokenBucket | Algorithm::LeakyBucket) {
                return error("`burst` goes with token_bucket and leaky_bucket");
            }
            let [limit] = limits.as_mut_slice() else {
                return error("`burst` goes with one limit");
            };
            if burst == 0 {
                return error("a `burst` of 0 admits nothing");
            }
            *limit = limit.with_burst(burst);
        }
        let block = block.map_or(Ok(Duration::ZERO), duration)?;
        if block > MAX_WINDOW {
            return error("a block lasts at most 366 days");
        }
        Ok(Self { algorithm, limits, block })
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
