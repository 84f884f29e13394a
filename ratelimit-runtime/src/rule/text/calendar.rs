//! Calendar quotas as text: `500/day`, `500/day@Europe/Berlin`.

use crate::parse_error::ParseError;
use crate::rule::calendar::CalendarUnit;
#[cfg(feature = "calendar")]
use crate::rule::calendar::Zone;
use crate::rule::limit::Limit;

/// The quota of `max` for each unit, if `window` is a unit of the calendar: a word, no number.
pub(super) fn read(max: u64, window: &str) -> Result<Option<Limit>, ParseError> {
    let (unit, zone) = window
        .split_once('@')
        .map_or((window, None), |(unit, zone)| (unit, Some(zone)));
    CalendarUnit::named(unit)
        .map(|unit| quota(max, unit, zone))
        .transpose()
}

#[cfg(feature = "calendar")]
fn quota(max: u64, unit: CalendarUnit, zone: Option<&str>) -> Result<Limit, ParseError> {
    let limit = Limit::calendar(max, unit);
    Ok(zone
        .map(Zone::named)
        .transpose()?
        .map_or(limit, |zone| limit.in_zone(zone)))
}

#[cfg(not(feature = "calendar"))]
fn quota(max: u64, unit: CalendarUnit, _: Option<&str>) -> Result<Limit, ParseError> {
    let message = format!(
        "`{max}/{unit}` is a quota by the calendar, which takes the feature `calendar` of ratelimit-runtime: turn it on, or \
         write a time such as `{max}/{}`",
        unit.span()
    );
    Err(message.into())
}
