//! Rules as text: what attributes, policies and operators write is read and printed in one place,
//! so that `"5/1m"` is the same everywhere.

mod calendar;
#[cfg(feature = "serde")]
mod config;
mod duration;
#[cfg(feature = "redis")]
mod line;
mod summary;

use std::fmt;
use std::str::FromStr;

#[cfg(feature = "watch")]
pub(crate) use self::config::Entries;
#[cfg(feature = "serde")]
pub(super) use self::config::Numbers;
pub use self::summary::RuleSummary;
use super::algorithm::Algorithm;
use super::limit::Limit;
use super::on_unavailable::OnUnavailable;
use super::policy::Policy;
use super::policy::overrides::{Override, Overrides};
use super::terms::Terms;
use crate::parse_error::ParseError;

/// Reads `max/window`, such as `5/1m` or `1000/1h 30m`, or `max/unit` of the calendar, such as
/// `500/day` or `500/day@Europe/Berlin`.
impl FromStr for Limit {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let text = text.trim();
        let Some((max, window)) = text.split_once('/') else {
            return Err(
                format!("a limit is `max/window`, such as \"3/60s\", and not `{text}`").into(),
            );
        };
        let (number, window) = (count(max)?, window.trim());
        if number == 0 {
            return Err("a limit of 0 refuses every call: write 1 or more"
                .to_owned()
                .into());
        }
        if let Some(quota) = calendar::read(number, window)? {
            return Ok(quota);
        }
        Self::try_new(number, duration::read(window)?)
            .map_err(|why| format!("in the limit `{text}`, {why}").into())
    }
}

/// Reads a number such as `1_000`.
fn count(text: &str) -> Result<u64, ParseError> {
    let digits = text.trim();
    let number = digits.replace('_', "").parse().ok();
    // The standard library would take `+10` too.
    number
        .filter(|_| digits.starts_with(|first: char| first.is_ascii_digit()))
        .ok_or_else(|| {
            format!("`{text}` is not a number of calls: write a whole number, such as 10").into()
        })
}

/// Writes the text that [`FromStr`] reads, such as `5/1m`, without a burst.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.by_calendar() {
            None => f.pad(&format!(
                "{}/{}",
                self.max(),
                duration::written(self.window_us())
            )),
            Some(calendar) => f.pad(&format!("{}/{calendar}", self.max())),
        }
    }
}

/// A policy as one line: limits on one key, separated by commas, after an algorithm and before
/// `zone`, `burst`, `block` (a range, `1m..1h`, grows), `wait`, `prefetch`, `timeout`,
/// `on_unavailable`, `concurrent`, `lease` and `shadow`.
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
        let (algorithm, rest) = match line.split_once(' ') {
            Some((word, rest)) if is_name(word) => (word.parse()?, rest),
            _ => (Algorithm::default(), line.as_str()),
        };
        let (limits, mut rest) = before_option(rest);
        if let Some(word) = limits.split(',').find_map(behind_limit) {
            let known = OPTIONS.join(", ");
            let known = format!("an algorithm stands before the limits, behind them {known}");
            return Err(format!("unknown option `{word}`: {known}").into());
        }
        let limits = limits_in(limits.split(','))?;
        let mut policy = Self {
            terms: limits.with_algorithm(algorithm),
            overrides: Overrides::default(),
            zone: None,
        };
        let terms = &mut policy.terms;
        let (mut burst, mut given) = (None, Vec::new());
        while !rest.is_empty() {
            let (name, behind) = rest.split_once(' ').unwrap_or((rest, ""));
            let (value, after) = before_option(behind);
            match name {
                name if value.is_empty() && name != "shadow" => {
                    return Err(format!("`{name}` has no value behind it").into());
                }
                "zone" => policy.zone = Some(value.to_owned()),
                "burst" => burst = Some(count(value)?),
                "block" => terms.block = value.parse()?,
                "wait" => terms.wait = Some(duration::read(value)?),
                "prefetch" => *terms = terms.with_prefetch(duration::read(value)?),
                "timeout" => terms.timeout = Some(duration::read(value)?),
                "on_unavailable" => terms.on_unavailable = Some(value.parse()?),
                "concurrent" => terms.concurrent = Some(count(value)?),
                "lease" => terms.lease = Some(duration::read(value)?),
                _ => {
                    let on = value.is_empty()
                        || value
                            .parse()
                            .map_err(|_| "write `shadow`, or `shadow false`".to_owned())?;
                    terms.shadow = Some(on);
                }
            }
            if given.contains(&name) {
                return Err(format!("`{name}` is given twice: write it once").into());
            }
            given.push(name);
            rest = after;
        }
        finished(policy, burst)
    }
}

/// The options that may follow the limits of a line.
const OPTIONS: [&str; 10] = [
    "zone",
    "burst",
    "block",
    "wait",
    "prefetch",
    "timeout",
    "on_unavailable",
    "concurrent",
    "lease",
    "shadow",
];

/// `true` if `word` is that of an algorithm or option, and not a limit or a part of its window.
fn is_name(word: &str) -> bool {
    word.starts_with(char::is_alphabetic)
}

/// The text before the first option, and the rest of the line.
fn before_option(text: &str) -> (&str, &str) {
    let mut words = std::iter::once(0).chain(text.match_indices(' ').map(|(space, _)| space + 1));
    let is_option = |start: &usize| {
        let word = text.get(*start..).and_then(|rest| rest.split(' ').next());
        word.is_some_and(|word| OPTIONS.contains(&word))
    };
    let (before, rest) = text.split_at(words.find(is_option).unwrap_or(text.len()));
    (before.trim_end(), rest)
}

/// The word behind a whole limit.
fn behind_limit(text: &str) -> Option<&str> {
    let mut parts = text.match_indices(' ').map(|(at, _)| text.split_at(at));
    let (_, rest) = parts.find(|(limit, _)| limit.parse::<Limit>().is_ok())?;
    rest.split_whitespace().next().filter(|word| is_name(word))
}

/// Reads limits such as `5/1m`.
fn limits_in<'t>(mut limits: impl Iterator<Item = &'t str>) -> Result<Terms, ParseError> {
    limits.try_fold(Terms::NONE, |terms, limit| Ok(terms.and(limit.parse()?)))
}

/// The policy with its burst, checked for use.
fn finished(mut policy: Policy, burst: Option<u64>) -> Result<Policy, ParseError> {
    if policy.limits().is_empty() {
        return Err("a policy has at least one limit".to_owned().into());
    }
    if let Some(burst) = burst {
        let burst = Override::burst(burst);
        burst.check(policy.algorithm(), policy.limits().len())?;
        policy.terms = policy.terms.with_override(&burst);
    }
    policy.check()?;
    Ok(policy)
}

impl FromStr for Algorithm {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        one_of("algorithm", text, Self::ALL)
    }
}

impl FromStr for OnUnavailable {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        one_of("answer", text, &Self::ALL)
    }
}

/// The value in `all` whose text is `text`.
fn one_of<T: Copy + fmt::Display>(what: &str, text: &str, all: &[T]) -> Result<T, ParseError> {
    let names: Vec<String> = all.iter().map(ToString::to_string).collect();
    let found = names.iter().zip(all).find(|(name, _)| *name == text);
    found
        .map(|(_, found)| *found)
        .ok_or_else(|| format!("unknown {what} \"{text}\": write {}", names.join(", ")).into())
}
