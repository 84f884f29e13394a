//! Times in the formats of logs.

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

/// The time in microseconds since 1970.
pub(crate) fn micros(text: &str, unit: Option<Unit>) -> Result<u64, String> {
    let since_1970 = match text.parse::<f64>() {
        Ok(number) => (number * unit.unwrap_or_else(|| Unit::by_size(number)).micros()).round(),
        #[allow(
            clippy::cast_precision_loss,
            reason = "microseconds are exact until the year 2255"
        )]
        Err(_) => text
            .parse()
            .or_else(|_| of_access_log(text))
            .map_err(|_| not_a_time(text))?
            .as_microsecond() as f64,
    };
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "in range"
    )]
    match since_1970 {
        0.0..LATEST => Ok(since_1970 as u64),
        _ => Err(format!("the time `{text}` is not between 1970 and 5138")),
    }
}

/// `10/Oct/2026:13:55:36 +0200`, also with a fraction of the second. Without an offset it is UTC.
fn of_access_log(text: &str) -> Result<Timestamp, jiff::Error> {
    strtime::parse("%d/%b/%Y:%H:%M:%S%.f %z", text)
        .and_then(|time| time.to_timestamp())
        .or_else(|_| {
            let time = strtime::parse("%d/%b/%Y:%H:%M:%S%.f", text)?.to_datetime()?;
            TimeZone::UTC.to_timestamp(time)
        })
}

fn not_a_time(text: &str) -> String {
    format!(
        "`{text}` is not a time: it looks like 2026-01-01T00:00:00Z, with an offset, or is a number"
    )
}

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
