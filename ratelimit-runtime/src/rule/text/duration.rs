//! Durations as text, `60s`, `1h 30m`, and blocks: `10m`, `1m..1h`. Words and units are those of the
//! attribute.

use std::str::FromStr;
use std::time::Duration;

use crate::parse_error::ParseError;
use crate::rule::block::BlockDuration;
use crate::rule::limit::Limit;

/// The units in microseconds, each with its names. Months and years are not among them, because
/// their length varies.
const UNITS: [(u64, &[&str]); 7] = [
    (7 * 24 * 60 * 60 * 1_000_000, &["w", "week", "weeks"]),
    (24 * 60 * 60 * 1_000_000, &["d", "day", "days"]),
    (60 * 60 * 1_000_000, &["h", "hr", "hrs", "hour", "hours"]),
    (60 * 1_000_000, &["m", "min", "mins", "minute", "minutes"]),
    (1_000_000, &["s", "sec", "secs", "second", "seconds"]),
    (
        1_000,
        &["ms", "msec", "msecs", "millisecond", "milliseconds"],
    ),
    (1, &["us", "µs", "usec", "usecs"]),
];

/// So many microseconds, in the largest unit up to a day that holds them whole: `1d`, `90s`.
pub(super) fn written(micros: u64) -> String {
    let whole = UNITS
        .iter()
        .skip(1)
        .find(|(length, _)| micros.is_multiple_of(*length));
    let unit = whole.and_then(|(length, names)| Some((length, names.first()?)));
    debug_assert!(unit.is_some(), "any number is a multiple of a microsecond");
    unit.map_or_else(String::new, |(length, name)| {
        format!("{}{name}", micros / length)
    })
}

/// `60s`, `1h 30m`: whole numbers with units.
pub(super) fn read(text: &str) -> Result<Duration, ParseError> {
    micros(text.trim()).map(Duration::from_micros).ok_or_else(|| {
        let message =
            "write whole numbers with units, as in \"60s\" or \"1h 30m\" (units: `us`, `ms`, `s`, `m`, `h`, `d`, `w`)";
        format!("`{text}` is not a duration: {message}").into()
    })
}

/// `None` also where it is too long to count.
fn micros(text: &str) -> Option<u64> {
    let (mut micros, mut rest) = (0_u64, text);
    loop {
        let (number, behind) = split(rest, |c| c.is_ascii_digit());
        let (name, behind) = split(behind.trim_start(), char::is_alphabetic);
        let (unit, _) = UNITS.iter().find(|(_, names)| names.contains(&name))?;
        micros = number
            .parse::<u64>()
            .ok()?
            .checked_mul(*unit)?
            .checked_add(micros)?;
        rest = behind.trim_start();
        if rest.is_empty() {
            return Some(micros);
        }
    }
}

/// The longest prefix of characters that are `wanted`, and what follows it.
fn split(text: &str, wanted: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !wanted(c)).unwrap_or(text.len()))
}

/// `10m`, or `1m..1h` of a block that grows.
impl FromStr for BlockDuration {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let Some((first, longest)) = text.split_once("..") else {
            let block = read(text)?;
            return if block.is_zero() || block > Limit::MAX_WINDOW {
                Err(format!("the block `{text}` is out of bounds: write one such as \"10m\", at most \"366d\"").into())
            } else {
                Ok(Self::fixed(block))
            };
        };
        let [first, longest] = [read(first)?, read(longest)?];
        if Self::is_range(first, longest) {
            Ok(Self::growing(first, longest))
        } else {
            Err(format!("the block `{text}` does not grow: write one such as \"1m..1h\", at most to \"366d\"").into())
        }
    }
}
