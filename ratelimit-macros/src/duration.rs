//! Durations in arguments, such as `"60s"`, `"1h 30m"` or `"2 days"`, read as microseconds.

use std::fmt;

/// The names of the units, as messages list them.
pub(crate) const NAMES: &str = "`us`, `ms`, `s`, `m`, `h`, `d`, `w`";

pub(crate) const MILLISECOND: u64 = 1_000;
pub(crate) const SECOND: u64 = 1_000 * MILLISECOND;
pub(crate) const MINUTE: u64 = 60 * SECOND;
pub(crate) const HOUR: u64 = 60 * MINUTE;
pub(crate) const DAY: u64 = 24 * HOUR;

/// The durations that an argument accepts, in microseconds, both ends included.
pub(crate) struct Bounds {
    pub(crate) shortest: u64,
    pub(crate) longest: u64,
    /// The unit to suggest for a number without one: `s` or `ms`.
    pub(crate) usual: &'static str,
}

/// A window: 1 ms to 366 days.
pub(crate) const WINDOW: Bounds = Bounds {
    shortest: MILLISECOND,
    longest: 366 * DAY,
    usual: "s",
};

/// Reads `text` as a duration within `bounds`, in microseconds. The error tells what to write.
pub(crate) fn parse(text: &str, bounds: &Bounds) -> Result<u64, String> {
    let micros = read(text, bounds.usual)?;
    if micros == 0 {
        return Err(format!(
            "`{text}` is no time at all: write a duration such as \"60s\""
        ));
    }
    if micros < bounds.shortest {
        return Err(format!(
            "`{text}` is too short: the shortest is {}",
            Readable(bounds.shortest)
        ));
    }
    if micros > bounds.longest {
        return Err(format!(
            "`{text}` is too long: the longest is {}",
            Readable(bounds.longest)
        ));
    }
    Ok(micros)
}

/// The units in microseconds, each with its names, the shortest first.
pub(crate) const UNITS: [(u64, &[&str]); 7] = [
    (1, &["us", "µs", "μs", "usec", "usecs"]),
    (
        MILLISECOND,
        &["ms", "msec", "msecs", "millisecond", "milliseconds"],
    ),
    (SECOND, &["s", "sec", "secs", "second", "seconds"]),
    (MINUTE, &["m", "min", "mins", "minute", "minutes"]),
    (HOUR, &["h", "hr", "hrs", "hour", "hours"]),
    (DAY, &["d", "day", "days"]),
    (7 * DAY, &["w", "week", "weeks"]),
];

/// The unit called `name`, and its other names.
fn named(name: &str) -> Option<(u64, &'static [&'static str])> {
    UNITS.into_iter().find(|(_, names)| names.contains(&name))
}

/// The unit called `name`, in microseconds.
pub(crate) fn unit(name: &str) -> Option<u64> {
    named(name).map(|(micros, _)| micros)
}

/// The shortest spelling of the unit called `name`.
pub(crate) fn short(name: &str) -> Option<&'static str> {
    named(name)?.1.first().copied()
}

/// `text` as an attribute writes a limit, if it reads as one: "3/1m" for "3 per minute".
pub(crate) fn limit(text: &str) -> Option<String> {
    let (max, window) = text.split_once('/').or_else(|| text.split_once(" per "))?;
    let (max, window) = (max.trim(), window.trim());
    let window = if parse(window, &WINDOW).is_ok() {
        window.to_owned()
    } else {
        format!("1{}", short(window)?)
    };
    is_number(max).then(|| format!("{max}/{window}"))
}

/// `true` if `text` is digits, with underscores between them as in Rust.
pub(crate) fn is_number(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_digit() || c == '_')
}

/// The advice to write `digits` with a unit, the `usual` one: many digits are probably
/// milliseconds.
pub(crate) fn with_unit(digits: &str, usual: &str) -> String {
    let thousands = digits.strip_suffix("000").unwrap_or_default();
    if usual == "ms" {
        format!("write \"{digits}ms\" for milliseconds")
    } else if thousands.is_empty() {
        format!("write \"{digits}s\" for seconds")
    } else {
        format!("write \"{thousands}s\" if it is milliseconds, \"{digits}s\" if it is seconds")
    }
}

fn read(text: &str, usual: &str) -> Result<u64, String> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(format!(
            "no duration: write one such as \"60s\" or \"1h 30m\" (units: {NAMES})"
        ));
    }
    let mut total: u64 = 0;
    let mut used = Vec::new();
    while !rest.is_empty() {
        let (digits, after) = split(rest, |c| c.is_ascii_digit());
        if digits.is_empty() {
            let wrong = rest.chars().next().unwrap_or_default();
            let word = rest
                .split(|c: char| !c.is_alphabetic())
                .next()
                .unwrap_or_default();
            return Err(
                if let (true, Some(short)) = (used.is_empty() && word == rest, short(word)) {
                    format!("`{text}` has no number: write \"1{short}\"")
                } else if wrong == '-' {
                    format!("`{text}` is negative: write a duration such as \"60s\"")
                } else {
                    format!(
                        "`{text}` is not a duration: expected a number at `{rest}`, as in \"60s\" \
                         or \"1h 30m\""
                    )
                },
            );
        }
        if after.starts_with(['.', ',']) {
            return Err(format!(
                "`{text}` has a fraction: write whole numbers, such as \"1h 30m\" or \"1500ms\""
            ));
        }
        let (name, after) = split(after.trim_start(), char::is_alphabetic);
        if name.is_empty() {
            return Err(if let Some(per) = after.strip_prefix('/') {
                format!("`{text}` is a rate: write `max = {digits}, window = \"{per}\"`")
            } else if after.is_empty() {
                let advice = with_unit(digits, usual);
                format!("`{text}` has no unit after `{digits}`: {advice} (units: {NAMES})")
            } else {
                format!("`{text}` has no unit after `{digits}` (units: {NAMES})")
            });
        }
        let Some(unit) = unit(name) else {
            return Err(unknown(text, name));
        };
        if used.contains(&unit) {
            return Err(format!(
                "`{text}` gives `{name}` twice: write each unit once"
            ));
        }
        used.push(unit);
        let too_long =
            || format!("`{text}` is too long: it does not fit in 64 bits of microseconds");
        let count: u64 = digits.parse().map_err(|_| too_long())?;
        total = count
            .checked_mul(unit)
            .and_then(|micros| total.checked_add(micros))
            .ok_or_else(too_long)?;
        rest = after.trim_start();
    }
    Ok(total)
}

fn unknown(text: &str, name: &str) -> String {
    let meant = match name.to_lowercase().as_str() {
        "mo" | "mon" | "month" | "months" => {
            ": months differ in length, write \"30d\", or \"month\" for one of the calendar"
                .to_owned()
        }
        "y" | "yr" | "year" | "years" => {
            ": years differ in length, write \"365d\", or \"year\" for one of the calendar"
                .to_owned()
        }
        "ns" | "nanosecond" | "nanoseconds" => ": the clock counts microseconds".to_owned(),
        lower if name != lower && unit(lower).is_some() => format!(": did you mean `{lower}`?"),
        _ => String::new(),
    };
    format!("unknown unit `{name}` in `{text}`{meant} (units: {NAMES})")
}

/// The longest prefix of `text` whose characters are all `wanted`, and the text after it.
fn split(text: &str, wanted: impl Fn(char) -> bool) -> (&str, &str) {
    let end = text.find(|c| !wanted(c)).unwrap_or(text.len());
    text.split_at(end)
}

/// A duration in its largest whole unit.
pub(crate) struct Readable(pub(crate) u64);

impl fmt::Display for Readable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, name) in [(DAY, "d"), (HOUR, "h"), (SECOND, "s"), (MILLISECOND, "ms")] {
            if self.0.is_multiple_of(unit) {
                return write!(f, "{}{name}", self.0 / unit);
            }
        }
        write!(f, "{}us", self.0)
    }
}
