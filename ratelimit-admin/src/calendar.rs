//! [`Period`]: the hour, day, week, month or year of a calendar quota.

use std::fmt;

use jiff::tz::TimeZone;
use jiff::{ToSpan as _, Unit, Zoned};
use ratelimit_runtime::{CalendarUnit, Limit};
use serde::{Serialize, Serializer};

/// The current period of a calendar quota.
pub(crate) struct Period {
    end: Zoned,
    zone: String,
}

impl Period {
    /// The period of a limit in a zone, UTC by default; `None` if the limit is not a calendar
    /// quota.
    pub(crate) fn of(limit: &Limit, zone: Option<&str>) -> Option<Self> {
        let unit = limit.calendar_unit()?;
        let zone = TimeZone::get(zone.unwrap_or("UTC")).ok()?;
        let now = Zoned::now().with_time_zone(zone.clone());
        Some(Self {
            end: end(&now, unit).ok()?,
            zone: zone.iana_name().unwrap_or("UTC").to_owned(),
        })
    }

    pub(crate) fn zone(&self) -> &str {
        &self.zone
    }
}

/// The first moment of the next period.
fn end(now: &Zoned, unit: CalendarUnit) -> Result<Zoned, jiff::Error> {
    let today = now.start_of_day()?;
    match unit {
        CalendarUnit::Hour => now
            .round(
                jiff::ZonedRound::new()
                    .smallest(Unit::Hour)
                    .mode(jiff::RoundMode::Trunc),
            )?
            .checked_add(1.hour()),
        CalendarUnit::Day => today.tomorrow()?.start_of_day(),
        CalendarUnit::Week => today
            .checked_add(i64::from(7 - now.weekday().to_monday_zero_offset()).days())?
            .start_of_day(),
        CalendarUnit::Month => now.first_of_month()?.checked_add(1.month())?.start_of_day(),
        _ => now.first_of_year()?.checked_add(1.year())?.start_of_day(),
    }
}

impl fmt::Display for Period {
    /// `1 January 00:00 Europe/Berlin`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.end.strftime("%-d %B %H:%M"), self.zone)
    }
}

impl Serialize for Period {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.end.timestamp())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
mod tests {
    use ratelimit_runtime::CalendarUnit::{Day, Hour, Month, Week, Year};

    #[test]
    fn a_period_ends_where_the_next_one_begins() {
        let tuesday = "2028-02-29T23:30:00[UTC]".parse().unwrap();
        let ends = [Hour, Day, Week, Month, Year].map(|unit| {
            let end = super::end(&tuesday, unit).unwrap();
            end.strftime("%F %H").to_string()
        });
        let march = "2028-03-01 00";
        assert_eq!(
            ends,
            [march, march, "2028-03-06 00", march, "2029-01-01 00"]
        );
    }
}
