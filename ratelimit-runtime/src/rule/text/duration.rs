//! Durations as text: `60s`, `1h 30m`. Words and units are those of the attribute.

use std::time::Duration;

use super::fault::{Fault, nearest};

/// The units, each with its names, of which `humantime` knows the first. Months and years are not
/// among them, because their length varies.
const UNITS: [&[&str]; 7] = [
    &["us", "µs", "usec", "usecs"],
    &["ms", "msec", "msecs", "millisecond", "milliseconds"],
    &["s", "sec", "secs", "second", "seconds"],
    &["m", "min", "mins", "minute", "minutes"],
    &["h", "hr", "hrs", "hour", "hours"],
    &["d", "day", "days"],
    &["w", "week", "weeks"],
];

/// The units as messages list them.
const LISTED: &str = "`us`, `ms`, `s`, `m`, `h`, `d`, `w`";

/// The short name of the unit called `name`.
pub(super) fn unit(name: &str) -> Option<&'static str> {
    UNITS.iter().find(|names| names.contains(&name)).and_then(|names| names.first().copied())
}

/// So many microseconds, in the largest unit that holds them whole: `1d`, `90s`.
pub(super) fn written(micros: u64) -> String {
    const LENGTHS: [(u64, &str); 6] = [
        (24 * 60 * 60 * 1_000_000, "d"),
        (60 * 60 * 1_000_000, "h"),
        (60 * 1_000_000, "m"),
        (1_000_000, "s"),
        (1_000, "ms"),
        (1, "us"),
    ];
    let whole = LENGTHS.iter().find(|(length, _)| micros.is_multiple_of(*length));
    whole.map_or_else(String::new, |(length, unit)| format!("{}{unit}", micros / length))
}

/// `60s`, `1h 30m`: whole numbers with units, each unit once.
pub(super) fn read(text: &str) -> Result<Duration, Fault<'_>> {
    let text = text.trim();
    if text.is_empty() {
        let message = format!("no duration: write one such as \"60s\" or \"1h 30m\" (units: {LISTED})");
        return Err(Fault { at: text, message });
    }
    let mut rest = text;
    let mut seen = Vec::new();
    let mut short = String::new();
    while !rest.is_empty() {
        let (digits, after) = split(rest, |c| c.is_ascii_digit());
        if digits.is_empty() {
            return Err(Fault { at: rest, message: no_number(text, rest) });
        }
        if after.starts_with(['.', ',']) {
            let message = format!("`{text}` has a fraction: write whole numbers, such as \"1h 30m\" or \"1500ms\"");
            return Err(Fault { at: rest, message });
        }
        let (name, after) = split(after.trim_start(), char::is_alphabetic);
        if name.is_empty() {
            let message =
                format!("`{text}` has no unit after `{digits}`: write \"{digits}s\" for seconds (units: {LISTED})");
            return Err(Fault { at: digits, message });
        }
        let Some(unit) = unit(name) else {
            return Err(Fault { at: name, message: unknown(text, name) });
        };
        if seen.contains(&unit) {
            let message = format!("`{text}` gives `{name}` twice: write each unit once");
            return Err(Fault { at: name, message });
        }
        seen.push(unit);
        short.extend([digits, unit]);
        rest = after.trim_start();
    }
    humantime::parse_duration(&short).map_err(|_| Fault { at: text, message: format!("`{text}` is too long to count") })
}

/// What to say of a word behind a window that is like an option.
pub(super) fn option_meant(word: &str) -> Option<String> {
    let is_zone = word == "tz" || word.starts_with("time") && word.ends_with("zone");
    let meant = if is_zone { "zone" } else { nearest(word, super::OPTIONS.map(|(name, _)| name))? };
    Some(format!("unknown option `{word}`: did you mean `{meant}`?"))
}

fn no_number(text: &str, rest: &str) -> String {
    let (word, _) = split(rest, char::is_alphabetic);
    if rest.starts_with('-') {
        format!("`{text}` is negative: write a duration such as \"60s\"")
    } else if let (true, Some(unit)) = (word == text, unit(text)) {
        format!("`{text}` has no number: write \"1{unit}\"")
    } else if let Some(message) = option_meant(word) {
        message
    } else {
        format!("`{text}` is not a duration: expected a number at `{rest}`, as in \"60s\" or \"1h 30m\"")
    }
}

fn unknown(text: &str, name: &str) -> String {
    let meant = match name.to_lowercase().as_str() {
        "mo" | "mon" | "month" | "months" => {
            ": months differ in length, write \"30d\", or \"month\" for one of the calendar".to_owned()
        }
        "y" | "yr" | "year" | "years" => {
            ": years differ in length, write \"365d\", or \"year\" for one of the calendar".to_owned()
        }
        "ns" | "nanosecond" | "nanoseconds" => ": the clock counts microseconds".to_owned(),
        lower if name != lower && unit(lower).is_some() => format!(": did you mean `{lower}`?"),
        lower => nearest(lower, super::OPTIONS.map(|(name, _)| name))
            .map(|meant| format!(": did you mean `{meant}`?"))
            .unwrap_or_default(),
    };
    format!("unknown unit `{name}` in `{text}`{meant} (units: {LISTED})")
}

/// The longest prefix of characters that are `wanted`, and what follows it.
fn split(text: &str, wanted: impl Fn(char) -> bool) -> (&str, &str) {
    let end = text.find(|c| !wanted(c)).unwrap_or(text.len());
    text.split_at(end)
}
