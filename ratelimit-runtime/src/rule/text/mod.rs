//! Rules as text: what attributes and configurations write, read back. Errors speak as those of the
//! attribute do.

mod block;
mod calendar;
#[cfg(feature = "serde")]
mod config;
mod duration;
mod fault;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use smallvec::SmallVec;

use self::fault::Fault;
pub(crate) use self::fault::nearest;
use super::algorithm::Algorithm;
use super::block::BlockDuration;
use super::limit::Limit;
use super::on_unavailable::OnUnavailable;
use super::policy::Policy;
use super::policy::overrides::{Overrides, burst_fault};

pub use self::fault::ParseError;

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
    if duration::unit(window).is_some() {
        return fault(window, format!("how long? write \"{max}/1{window}\""));
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

/// What [`FromStr`] reads: `5/60s`. A burst is not part of it.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.by_calendar() {
            None => f.pad(&format!("{}/{}", self.max(), super::name::Window(self.window_us()))),
            Some(calendar) => f.pad(&format!("{}/{calendar}", self.max())),
        }
    }
}

/// A policy as one line: limits on one key, separated by commas, behind an algorithm and before
/// `zone`, `burst`, `block` (of which a range grows: `1m..1h`), `wait`, `timeout`,
/// `on_unavailable` and `shadow`, in this order.
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

/// What may stand behind the limits of a line, in this order, and how messages show it.
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
    let mut limits = rest;
    let mut given = [None; OPTIONS.len()];
    for ((name, _), value) in OPTIONS.iter().zip(&mut given).rev() {
        (limits, *value) = with_option(limits, name);
    }
    for ((name, example), value) in OPTIONS.into_iter().zip(given) {
        let Some(value) = value else { continue };
        if value.is_empty() && name != "shadow" {
            return Err(Fault { at: value, message: format!("`{name}` needs a value: write `{example}`") });
        }
        // Those that stand behind it have been taken off.
        let early = |word: &&str| *word != name && OPTIONS.iter().any(|(option, _)| option == word);
        if let Some(at) = value.split(' ').find(early) {
            return Err(Fault { at, message: format!("`{at}` stands before `{name}`") });
        }
    }
    let [zone, burst, block, wait, timeout, on_unavailable, shadow] = given;
    let named = |word| named(word).map_err(|message| Fault { at: word, message });
    let number = |burst| {
        let message = format!("`{burst}` is not a number of calls: write `burst 10`");
        count(burst).ok_or(Fault { at: burst, message })
    };
    let is_shadow = |text| match text {
        "" | "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Fault { at: text, message: "write `shadow`, or `shadow false`".to_owned() }),
    };
    let parts = Parts {
        algorithm: algorithm.map(named).transpose()?.unwrap_or_default(),
        burst: burst.map(number).transpose()?,
        block: block.map(block::read).transpose()?,
        wait: wait.map(duration::read).transpose()?,
        timeout: timeout.map(duration::read).transpose()?,
        on_unavailable: on_unavailable
            .map(|text| answer(text).map_err(|message| Fault { at: text, message }))
            .transpose()?,
        shadow: shadow.map(is_shadow).transpose()?,
        zone: zone.map(str::to_owned),
        ..Parts::of(limits_in(limits)?)
    };
    parts.policy().map_err(|(part, message)| {
        let option = OPTIONS.iter().zip(given).find(|((name, _), _)| *name == part);
        Fault { at: option.and_then(|(_, value)| value).unwrap_or(line), message }
    })
}

/// What stands before and behind a word.
fn with_option<'a>(text: &'a str, word: &str) -> (&'a str, Option<&'a str>) {
    if let Some(before) = text.strip_suffix(word).and_then(|before| before.strip_suffix(' ')) {
        return (before, text.get(text.len()..));
    }
    text.split_once(&format!(" {word} ")).map_or((text, None), |(before, value)| (before, Some(value)))
}

/// `5/1m, 50/1d`
fn limits_in(text: &str) -> Result<SmallVec<[Limit; 2]>, Fault<'_>> {
    text.split(',').map(|part| limit(part.trim())).collect()
}

/// The parts of a policy as they are written.
struct Parts {
    limits: SmallVec<[Limit; 2]>,
    algorithm: Algorithm,
    burst: Option<u64>,
    block: Option<BlockDuration>,
    wait: Option<Duration>,
    timeout: Option<Duration>,
    on_unavailable: Option<OnUnavailable>,
    shadow: Option<bool>,
    overrides: Overrides,
    zone: Option<String>,
}

impl Parts {
    /// No more than limits.
    fn of(limits: SmallVec<[Limit; 2]>) -> Self {
        Self {
            limits,
            algorithm: Algorithm::default(),
            burst: None,
            block: None,
            wait: None,
            timeout: None,
            on_unavailable: None,
            shadow: None,
            overrides: Overrides::default(),
            zone: None,
        }
    }

    /// The policy, or which part is wrong, and why.
    fn policy(self) -> Result<Policy, (&'static str, String)> {
        let Self { mut limits, algorithm, burst, block, wait, timeout, on_unavailable, shadow, overrides, zone } = self;
        if limits.is_empty() {
            return Err(("limits", "a policy has at least one limit".to_owned()));
        }
        if let Some(fault) = burst_fault(burst, algorithm, limits.len()) {
            return Err(("burst", fault));
        }
        if let (Some(limit), Some(burst)) = (limits.first_mut(), burst) {
            *limit = limit.with_burst(burst);
        }
        let policy = Policy {
            block: block.unwrap_or_default(),
            wait,
            timeout,
            on_unavailable,
            shadow,
            overrides,
            zone,
            ..Policy::of_limits(limits).with_algorithm(algorithm)
        };
        policy.fault().map_or(Ok(policy), Err)
    }
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
