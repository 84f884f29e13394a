//! Durations as text, such as `60s` or `1h 30m`, and blocks: `10m`, `1m..1h`. Words and units are
//! those of the attribute.

use std::str::FromStr;
use std::time::Duration;

use crate::parse_error::ParseError;
use crate::rule::block::BlockDuration;
use crate::rule::limit::Limit;

/// The units in microseconds, with their names. Months and years, whose lengths vary, are missing.
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
    (1, &["us", "µs", "μs", "usec", "usecs"]),
];

/// `micros` as text, in the largest unit up to a day that holds them whole: `1d`, `90s`.
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

/// Reads `60s` or `1h 30m`: whole numbers with units.
pub(super) fn read(text: &str) -> Result<Duration, ParseError> {
    micros(text.trim()).map(Duration::from_micros).ok_or_else(|| {
        let message =
            "write whole numbers with units, as in \"60s\" or \"1h 30m\" (units: `us`, `ms`, `s`, `m`, `h`, `d`, `w`)";
        format!("`{text}` is not a duration: {message}").into()
    })
}

/// The microseconds; `None` if the text is none, gives a unit twice, or they are too many.
fn micros(text: &str) -> Option<u64> {
    let (mut micros, mut rest) = (0_u64, text);
    let mut unused = UNITS.to_vec();
    loop {
        let (number, behind) = split(rest, |c| c.is_ascii_digit());
        let (name, behind) = split(behind.trim_start(), char::is_alphabetic);
        let unit = unused.iter().position(|(_, names)| names.contains(&name))?;
        let (unit, _) = unused.swap_remove(unit);
        micros = number
            .parse::<u64>()
            .ok()?
            .checked_mul(unit)?
            .checked_add(micros)?;
        rest = behind.trim_start();
        if rest.is_empty() {
            return Some(micros);
        }
    }
}

/// The longest prefix of `text` whose characters are all `wanted`, and the text after it.
fn split(text: &str, wanted: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !wanted(c)).unwrap_or(text.len()))
}

/// Reads `10m`, or `1m..1h` for a block that grows.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn every_name_of_a_unit_is_in_the_table_of_durations() {
        let table = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/engine/durations.txt");
        let table = std::fs::read_to_string(table).unwrap();
        for name in UNITS.iter().flat_map(|(_, names)| *names) {
            let has_unit = |row: &str| {
                let text = row.strip_prefix("window | ").unwrap_or_default();
                let text = text.split(" | ").next().unwrap_or_default();
                text.trim_start_matches(|c: char| !c.is_alphabetic()) == *name
            };
            assert!(table.lines().any(has_unit), "no row has `{name}` alone");
        }
    }
}
