//! Calendar quotas as text: `500/day`, `500/day@Europe/Berlin`.

#[cfg(feature = "calendar")]
use std::time::Duration;

use super::fault::Fault;
#[cfg(feature = "calendar")]
use super::fault::nearest;
use crate::rule::calendar::CalendarUnit;
#[cfg(feature = "calendar")]
use crate::rule::calendar::Zone;
use crate::rule::limit::Limit;

/// The quota of so many calls a unit, if the window is one of the calendar: a word without a
/// number.
#[cfg(feature = "calendar")]
pub(super) fn read(max: u64, window: &str) -> Result<Option<Limit>, Fault<'_>> {
    let (unit, zone) = window.split_once('@').map_or((window, None), |(unit, zone)| (unit, Some(zone)));
    let Some(found) = CalendarUnit::named(unit) else {
        let is_word = !unit.is_empty() && unit.chars().all(char::is_alphabetic);
        let meant = is_word.then(|| nearest(unit, CalendarUnit::ALL.iter().map(|unit| unit.name()))).flatten();
        return match meant {
            Some(meant) => {
                let message = format!(
                    "unknown unit `{unit}`: did you mean `{max}/{meant}`, by the calendar? A time without one has a \
                     number, as in `{max}/1d`"
                );
                Err(Fault { at: unit, message })
            }
            None => Ok(None),
        };
    };
    let limit = Limit::try_new(max, Duration::from_micros(found.usual_us())).map(|_| Limit::calendar(max, found));
    let limit = limit.map_err(|why| Fault { at: window, message: why.to_string() })?;
    let Some(zone) = zone else { return Ok(Some(limit)) };
    let zone = Zone::named(zone).map_err(|message| Fault { at: zone, message })?;
    Ok(Some(limit.in_zone(zone)))
}

/// Without the feature there is none.
#[cfg(not(feature = "calendar"))]
pub(super) fn read(max: u64, window: &str) -> Result<Option<Limit>, Fault<'_>> {
    let unit = window.split_once('@').map_or(window, |(unit, _)| unit);
    match CalendarUnit::ALL.iter().find(|known| known.name() == unit) {
        Some(unit) => {
            let message = format!(
                "`{max}/{unit}` is a quota by the calendar, which takes the feature `calendar` of ratelimit-runtime: turn \
                 it on, or write a time such as `{max}/1h`"
            );
            Err(Fault { at: window, message })
        }
        None => Ok(None),
    }
}
