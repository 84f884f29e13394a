//! Times in the formats of logs.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "in range, and microseconds are exact until the year 2255"
)]

use std::borrow::Cow;

use clap::ValueEnum;
use jiff::Timestamp;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;

/// The unit of a time that is a number, counted from 1970 or from any other start.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Unit {
    /// Seconds, with or without a fraction
    S,
    /// Milliseconds
    Ms,
    /// Microseconds
    Us,
    /// Nanoseconds
    Ns,
}

impl Unit {
    /// Guesses the unit: the present is some 10⁹ seconds, 10¹² milliseconds, 10¹⁵ microseconds or
    /// 10¹⁸ nanoseconds after 1970.
    fn by_size(number: f64) -> Self {
        match number {
            ..1e11 => Self::S,
            ..1e14 => Self::Ms,
            ..LATEST => Self::Us,
            _ => Self::Ns,
        }
    }

    fn micros(self) -> f64 {
        match self {
            Self::S => 1e6,
            Self::Ms => 1e3,
            Self::Us => 1.0,
            Self::Ns => 1e-3,
        }
    }
}

/// The year 5138; up to here an `f64` holds microseconds as whole numbers.
const LATEST: f64 = 1e17;

/// A time of a log.
pub(crate) struct Time {
    /// In microseconds since 1970.
    pub(crate) micros: u64,
    /// Whether it has no offset, and is taken for UTC.
    pub(crate) is_local: bool,
}

/// The time of a line.
pub(crate) fn read(text: &str, unit: Option<Unit>) -> Result<Time, String> {
    let bare = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    let text = bare.unwrap_or(text);
    let number = number(text, unit).map(|number| (number, false));
    let read = number.or_else(|| {
        let (time, is_local) = civil(text)?;
        Some((time.as_microsecond() as f64, is_local))
    });
    let (since_1970, is_local) = read.ok_or_else(|| {
        format!(
            "`{text}` is not a time: it looks like 2026-01-01T00:00:00Z or 10/Oct/2026:13:55:36 \
             +0200, or is a number"
        )
    })?;
    let micros = in_range(since_1970);
    let micros = micros.ok_or_else(|| format!("the time `{text}` is not between 1970 and 5138"))?;
    Ok(Time { micros, is_local })
}

/// The time in microseconds since 1970.
pub(crate) fn micros(text: &str, unit: Option<Unit>) -> Result<u64, String> {
    read(text, unit).map(|time| time.micros)
}

/// A time that is a number or has an offset, as no other text is.
pub(crate) fn exact(text: &str, unit: Option<Unit>) -> Option<u64> {
    in_range(number(text, unit)?)
}

fn number(text: &str, unit: Option<Unit>) -> Option<f64> {
    Some(match text.parse::<f64>() {
        Ok(number) => (number * unit.unwrap_or_else(|| Unit::by_size(number)).micros()).round(),
        Err(_) => zoned(text)?.as_microsecond() as f64,
    })
}

fn in_range(since_1970: f64) -> Option<u64> {
    (0.0..LATEST)
        .contains(&since_1970)
        .then_some(since_1970 as u64)
}

/// RFC 3339, or `10/Oct/2026:13:55:36 +0200`, also with a fraction of the second.
fn zoned(text: &str) -> Option<Timestamp> {
    let access = || strtime::parse("%d/%b/%Y:%H:%M:%S%.f %z", text)?.to_timestamp();
    text.parse().or_else(|_| access()).ok()
}

/// A time as programs write it for readers, and whether it has no offset.
fn civil(text: &str) -> Option<(Timestamp, bool)> {
    // Fractions of Python and Java stand behind a comma, as the time does behind a day of the week.
    let text = match text.split_once(',') {
        Some((time, fraction)) if fraction.starts_with(|c: char| c.is_ascii_digit()) => {
            Cow::Owned(format!("{time}.{fraction}"))
        }
        _ => Cow::Borrowed(text),
    };
    let zones = ["", " %z", "%z", " UTC", " GMT"];
    let mut forms = FORMS
        .iter()
        .flat_map(|form| zones.map(|zone| (format!("{form}{zone}"), zone)));
    forms.find_map(|(form, zone)| {
        let time = strtime::parse(&form, text.as_bytes()).ok()?;
        if zone.contains('z') {
            return Some((time.to_timestamp().ok()?, false));
        }
        let time = TimeZone::UTC.to_timestamp(time.to_datetime().ok()?);
        Some((time.ok()?, zone.is_empty()))
    })
}

const FORMS: &[&str] = &[
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y/%m/%d %H:%M:%S%.f",
    "%Y/%m/%d - %H:%M:%S",
    "%d/%b/%Y:%H:%M:%S%.f",
    "%d/%b/%Y %H:%M:%S%.f",
    "%a, %d %b %Y %H:%M:%S",
    "%a %b %e %H:%M:%S%.f %Y",
];

/// The time as RFC 3339.
pub(crate) fn rfc3339(micros: u64) -> String {
    moment(micros).to_string()
}

pub(crate) fn moment(micros: u64) -> Timestamp {
    i64::try_from(micros)
        .ok()
        .and_then(|micros| Timestamp::from_microsecond(micros).ok())
        .unwrap_or(Timestamp::MAX)
}
