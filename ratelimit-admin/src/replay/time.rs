//! Times in the formats of logs.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "in range, and microseconds are exact until the year 2255"
)]

use std::borrow::Cow;
use std::str::FromStr;

use jiff::civil::{self, Date, DateTime};
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _};

/// The format of times, as the operator gives it.
#[derive(Clone)]
pub(crate) enum Form {
    Number(Unit),
    /// A format of `strftime`.
    Text(String),
}

impl FromStr for Form {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self::Number(match text {
            "s" => Unit::S,
            "ms" => Unit::Ms,
            "us" => Unit::Us,
            "ns" => Unit::Ns,
            text if text.contains('%') => {
                let now = Timestamp::now().to_zoned(TimeZone::UTC);
                strtime::format(text, &now).map_err(|error| error.to_string())?;
                return Ok(Self::Text(text.to_owned()));
            }
            _ => return Err("it is s, ms, us, ns, or such as '%m/%d/%Y %H:%M:%S'".to_owned()),
        }))
    }
}

/// The unit of a time that is a number, counted from 1970 or from any other start.
#[derive(Clone, Copy)]
pub(crate) enum Unit {
    S,
    Ms,
    Us,
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
    pub(crate) without: Option<Part>,
}

/// A part that a time lacks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The offset: the time is taken for UTC.
    Offset,
    Year,
    Date,
}

/// The time of a line. If it lacks the year or date, the moment nearest to `last` or, without
/// `last`, the latest one before now.
pub(crate) fn read(text: &str, form: Option<&Form>, last: Option<u64>) -> Result<Time, String> {
    let bare = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    let text = bare.unwrap_or(text);
    let number = number(text, form).map(|number| (number, None));
    let read = number.or_else(|| {
        let (time, without) = match form {
            Some(Form::Text(form)) => formatted(form, text)?,
            _ => civil(text).or_else(|| completed(text, last.map(moment)))?,
        };
        Some((time.as_microsecond() as f64, without))
    });
    let (since_1970, without) = read.ok_or_else(|| match form {
        Some(Form::Text(_)) => format!("`{text}` is not as --time-format says"),
        _ => format!(
            "`{text}` is not a time: it looks like 2026-01-01T00:00:00Z or 10/Oct/2026:13:55:36 \
             +0200, or is a number; --time-format says how it is written"
        ),
    })?;
    let micros = in_range(since_1970);
    let micros = micros.ok_or_else(|| format!("the time `{text}` is not between 1970 and 5138"))?;
    Ok(Time { micros, without })
}

/// The time in microseconds since 1970, if it has a date.
pub(crate) fn dated(text: &str, form: Option<&Form>) -> Option<u64> {
    let time = read(text, form, None).ok()?;
    matches!(time.without, None | Some(Part::Offset)).then_some(time.micros)
}

/// A time that is a number or has an offset, as no other text is.
pub(crate) fn exact(text: &str, form: Option<&Form>) -> Option<u64> {
    in_range(number(text, form)?)
}

fn number(text: &str, form: Option<&Form>) -> Option<f64> {
    let unit = match form {
        Some(Form::Text(_)) => return None,
        Some(Form::Number(unit)) => Some(*unit),
        None => None,
    };
    // A date and a time: until 2286, no number of seconds or parts of them has as many digits.
    if unit.is_none()
        && matches!(text.len(), 14 | 17)
        && !text.contains('.')
        && civil(text).is_some()
    {
        return None;
    }
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

/// A time as programs write it for people, and the part that it lacks.
fn civil(text: &str) -> Option<(Timestamp, Option<Part>)> {
    let text = with_point(text);
    let zones = ["", " %z", "%z", " %:z", " UTC", " GMT"];
    let mut forms = FORMS
        .iter()
        .flat_map(|form| zones.map(|zone| (format!("{form}{zone}"), zone)));
    forms.find_map(|(form, zone)| {
        let (time, without) = formatted(&form, &text)?;
        Some((time, without.filter(|_| zone.is_empty())))
    })
}

/// Fractions of Python and Java stand behind a comma, as the time does behind a day of the week.
fn with_point(text: &str) -> Cow<'_, str> {
    match text.split_once(',') {
        Some((time, fraction)) if fraction.starts_with(|c: char| c.is_ascii_digit()) => {
            Cow::Owned(format!("{time}.{fraction}"))
        }
        _ => Cow::Borrowed(text),
    }
}

fn formatted(form: &str, text: &str) -> Option<(Timestamp, Option<Part>)> {
    let time = strtime::parse(form, text).ok()?;
    if let Ok(time) = time.to_timestamp() {
        return Some((time, None));
    }
    Some((utc(time.to_datetime().ok()?)?, Some(Part::Offset)))
}

fn utc(time: DateTime) -> Option<Timestamp> {
    TimeZone::UTC.to_timestamp(time).ok()
}

/// `Oct 10 13:55:36` and `13:55:36`.
fn completed(text: &str, last: Option<Timestamp>) -> Option<(Timestamp, Option<Part>)> {
    let text = with_point(text);
    let near = |half: SignedDuration| last.unwrap_or_else(|| Timestamp::now() - half);
    let date_of = |time: Timestamp| time.to_zoned(TimeZone::UTC).date();
    let nearest = |near: Timestamp, times: &mut dyn Iterator<Item = DateTime>| {
        times
            .filter_map(utc)
            .min_by_key(|time| time.duration_since(near).abs())
    };
    // 2000 has a 29 February.
    if let Ok(time) = strtime::parse("%Y %b %e %H:%M:%S%.f", format!("2000 {text}")) {
        let time = time.to_datetime().ok()?;
        let near = near(SignedDuration::from_hours(24 * 182));
        let years = date_of(near).year() - 8..=date_of(near).year() + 8;
        let mut times = years.filter_map(|year| {
            let date = Date::new(year, time.month(), time.day()).ok()?;
            Some(date.to_datetime(time.time()))
        });
        return Some((nearest(near, &mut times)?, Some(Part::Year)));
    }
    let time = civil::Time::strptime("%H:%M:%S%.f", &*text).ok()?;
    let near = near(SignedDuration::from_hours(12));
    let mut times = (-1..=1).filter_map(|days| {
        let date = date_of(near).checked_add(days.days()).ok()?;
        Some(date.to_datetime(time))
    });
    Some((nearest(near, &mut times)?, Some(Part::Date)))
}

const FORMS: &[&str] = &[
    "%Y%m%d%H%M%S",
    "%Y%m%d%H%M%S%f",
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y/%m/%d %H:%M:%S%.f",
    "%Y/%m/%d - %H:%M:%S",
    "%d/%b/%Y:%H:%M:%S%.f",
    "%d/%b/%Y %H:%M:%S%.f",
    "%d-%b-%Y %H:%M:%S%.f",
    "%a, %d %b %Y %H:%M:%S",
    "%d %b %Y %H:%M:%S%.f",
    "%b %e, %Y %I:%M:%S %p",
    "%b %e, %Y @ %H:%M:%S%.f",
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
