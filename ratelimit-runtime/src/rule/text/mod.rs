//! Rules as text: what attributes and configurations write, read back. Errors speak as those of the
//! attribute do.

mod block;
mod calendar;
#[cfg(feature = "serde")]
mod config;
mod duration;
mod fault;

use crate::parse_error::ParseError;
use std::fmt;
use std::str::FromStr;

use smallvec::SmallVec;

use self::fault::Fault;
pub(crate) use self::fault::nearest;
use super::algorithm::Algorithm;
use super::limit::Limit;
use super::on_unavailable::OnUnavailable;
use super::policy::Policy;
use super::policy::overrides::burst_fault;

#[cfg(feature = "watch")]
pub(crate) use self::config::Entries;
#[cfg(feature = "serde")]
pub(super) use self::config::Numbers;

/// `max/window`: `5/1m`, `1000/1h 30m`; or `max/unit` for one of the calendar: `500/day`,
/// `500/day@Europe/Berlin`.
impl FromStr for Limit {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        limit(text).map_err(|fault| fault.drawn(text))
    }
}

fn limit(text: &str) -> Result<Limit, Fault<'_>> {
    let fault = |at, message: String| Err(Fault { at, message });
    let Some((max, window)) = text.split_once('/') else {
        return fault(text.trim(), "a limit is `max/window`: write \"3/60s\" for 3 in any 60 seconds".to_owned());
    };
    let (max, window) = (max.trim(), window.trim());
    if count(window).is_some() && duration::read(max).is_ok() {
        return fault(text.trim(), format!("the number comes first: did you mean \"{window}/{max}\"?"));
    }
    let Some(number) = count(max) else {
        let negative = max.strip_prefix('-').is_some_and(|rest| count(rest).is_some());
        return match max {
            _ if negative => fault(max, "a limit cannot be negative: write 1 or more".to_owned()),
            "" => fault(text, "how many calls? write a number before the `/`, as in \"3/60s\"".to_owned()),
            _ => fault(
                max,
                format!("`{max}` is not a number of calls: write a whole number before the `/`, as in \"3/60s\""),
            ),
        };
    };
    if number == 0 {
        return fault(max, "a limit of 0 refuses every call: write 1 or more".to_owned());
    }
    if let Some(limit) = calendar::read(number, window)? {
        return Ok(limit);
    }
    if let Some(unit) = duration::unit(window) {
        return fault(window, format!("how long? write \"{max}/1{unit}\""));
    }
    if window.contains([';', '/']) {
        return fault(window, "between two limits stands a comma, as in \"5/1m, 50/1d\"".to_owned());
    }
    Limit::try_new(number, duration::read(window)?)
        .or_else(|why| fault(text.trim(), format!("in the limit `{}`, {why}", text.trim())))
}

/// `1_000`
fn count(text: &str) -> Option<u64> {
    text.trim().replace('_', "").parse().ok()
}

/// What [`FromStr`] reads: `5/1m`. A burst is not part of it.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.by_calendar() {
            None => f.pad(&format!("{}/{}", self.max(), duration::written(self.window_us()))),
            Some(calendar) => f.pad(&format!("{}/{calendar}", self.max())),
        }
    }
}

/// A policy as one line: limits on one key, separated by commas, behind an algorithm and before
/// `zone`, `burst`, `block` (of which a range grows: `1m..1h`), `wait`, `timeout`,
/// `on_unavailable` and `shadow`.
///
/// ```
/// use std::time::Duration;
/// use ratelimit_runtime::{Algorithm, Limit, OnUnavailable, Policy};
///
/// assert_eq!("5/1m, 50/1d".parse(), Ok(Policy::new(Limit::per_minute(5)).and(Limit::per_day(50))));
/// let upload = Policy::new(Limit::per_second(10).with_burst(50))
///     .with_algorithm(Algorithm::TokenBucket)
///     .with_block(Duration::from_secs(600));
/// assert_eq!("token_bucket 10/1s burst 50 block 10m".parse(), Ok(upload));
/// let export = Policy::new(Limit::per_hour(10)).with_on_unavailable(OnUnavailable::Deny).with_shadow(true);
/// assert_eq!("10/1h on_unavailable deny shadow".parse(), Ok(export));
/// ```
impl FromStr for Policy {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        read(&line).map_err(|fault| fault.drawn(&line))
    }
}

/// What may stand behind the limits of a line, and how messages show it.
const OPTIONS: [(&str, &str); 7] = [
    ("zone", "zone Europe/Berlin"),
    ("burst", "burst 10"),
    ("block", "block 10m"),
    ("wait", "wait 2s"),
    ("timeout", "timeout 50ms"),
    ("on_unavailable", "on_unavailable deny"),
    ("shadow", "shadow"),
];

fn read(line: &str) -> Result<Policy, Fault<'_>> {
    let (algorithm, rest) = match line.split_once(' ') {
        Some((word, rest)) if word.starts_with(char::is_alphabetic) => (Some(word), rest),
        _ => (None, line),
    };
    if let Some(word) = rest.split([' ', ',']).find(|word| word.parse::<Algorithm>().is_ok()) {
        let message = format!("the algorithm stands before the limits: write `{word} 5/1m`");
        return Err(Fault { at: word, message });
    }
    let algorithm = algorithm.map(|word| named(word).map_err(|message| Fault { at: word, message })).transpose()?;
    let (limits, mut rest) = before_option(rest);
    let mut policy = Policy::of_limits(limits_in(limits)?).with_algorithm(algorithm.unwrap_or_default());
    let (mut burst, mut given) = (None, Vec::new());
    while !rest.is_empty() {
        let (name, behind) = rest.split_at(rest.find(' ').unwrap_or(rest.len()));
        let (value, after) = before_option(behind.trim_start());
        rest = after;
        let fault = |at, message: String| Err(Fault { at, message });
        if given.iter().any(|(other, _)| *other == name) {
            return fault(name, format!("`{name}` is given twice: write it once"));
        }
        if let Some((_, example)) = OPTIONS.iter().find(|(option, _)| *option == name && name != "shadow")
            && value.is_empty()
        {
            return fault(value, format!("`{name}` needs a value: write `{example}`"));
        }
        match name {
            "zone" => policy.zone = Some(value.to_owned()),
            "burst" => match count(value) {
                None => return fault(value, format!("`{value}` is not a number of calls: write `burst 10`")),
                number => burst = number,
            },
            "block" => policy.block = block::read(value)?,
            "wait" => policy.wait = Some(duration::read(value)?),
            "timeout" => policy.timeout = Some(duration::read(value)?),
            "on_unavailable" => match answer(value) {
                Ok(answer) => policy.on_unavailable = Some(answer),
                Err(message) => return fault(value, message),
            },
            _ => match value {
                "" | "true" => policy.shadow = Some(true),
                "false" => policy.shadow = Some(false),
                _ => return fault(value, "write `shadow`, or `shadow false`".to_owned()),
            },
        }
        given.push((name, value));
    }
    finished(policy, burst).map_err(|(part, message)| {
        let value = given.iter().find(|(name, _)| *name == part).map(|(_, value)| *value);
        Fault { at: value.unwrap_or(line), message }
    })
}

/// What stands before the first option in a text, and the rest of it.
fn before_option(text: &str) -> (&str, &str) {
    let mut words = std::iter::once(0).chain(text.match_indices(' ').map(|(space, _)| space + 1));
    let is_option = |start: &usize| {
        let word = text.get(*start..).and_then(|rest| rest.split(' ').next());
        OPTIONS.iter().any(|(name, _)| Some(*name) == word)
    };
    let (before, rest) = text.split_at(words.find(is_option).unwrap_or(text.len()));
    (before.trim_end(), rest)
}

/// `5/1m, 50/1d`
fn limits_in(text: &str) -> Result<SmallVec<[Limit; 2]>, Fault<'_>> {
    text.split(',').map(|part| limit(part.trim())).collect()
}

/// The policy with its burst; or which part of it is wrong, and why.
fn finished(mut policy: Policy, burst: Option<u64>) -> Result<Policy, (&'static str, String)> {
    if policy.limits.is_empty() {
        return Err(("limits", "a policy has at least one limit".to_owned()));
    }
    if let Some(fault) = burst_fault(burst, policy.algorithm, policy.limits.len()) {
        return Err(("burst", fault));
    }
    if let (Some(limit), Some(burst)) = (policy.limits.first_mut(), burst) {
        *limit = limit.with_burst(burst);
    }
    policy.fault().map_or(Ok(policy), Err)
}

impl FromStr for Algorithm {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        named(text).map_err(ParseError::from)
    }
}

fn named(text: &str) -> Result<Algorithm, String> {
    let rows = Algorithm::ALL.iter().map(|algorithm| algorithm.row());
    let synonyms: Vec<_> = rows.flat_map(|row| row.synonyms.iter().map(move |synonym| (*synonym, row.name))).collect();
    one_of("algorithm", text, Algorithm::ALL, &synonyms)
}

impl FromStr for OnUnavailable {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        answer(text).map_err(ParseError::from)
    }
}

fn answer(text: &str) -> Result<OnUnavailable, String> {
    const SYNONYMS: &[(&str, &str)] = &[("open", "allow"), ("closed", "deny"), ("memory", "local")];
    one_of("answer", text, &OnUnavailable::ALL, SYNONYMS)
}

/// The one of `all` that is written `text`. `synonyms` are what other limiters call some of them.
fn one_of<T: Copy + fmt::Display>(what: &str, text: &str, all: &[T], synonyms: &[(&str, &str)]) -> Result<T, String> {
    let names: Vec<String> = all.iter().map(ToString::to_string).collect();
    if let Some((_, found)) = names.iter().zip(all).find(|(name, _)| *name == text) {
        return Ok(*found);
    }
    let synonym = synonyms.iter().find(|(synonym, _)| *synonym == text).map(|(_, name)| *name);
    Err(match synonym.or_else(|| nearest(text, names.iter().map(String::as_str))) {
        Some(meant) => format!("unknown {what} \"{text}\": did you mean \"{meant}\"?"),
        None => format!("unknown {what} \"{text}\": write {}", names.join(", ")),
    })
}
