//! Calendar quotas as text: `500/day`, `500/day@Europe/Berlin`.

#[cfg(feature = "calendar")]
use std::time::Duration;

use super::fault::Fault;
#[cfg(feature = "calendar")]
use super::{duration, fault::nearest};
use crate::rule::calendar::CalendarUnit;
#[cfg(feature = "calendar")]
use crate::rule::calendar::Zone;
use crate::rule::limit::Limit;

/// The quota of so many calls a unit, if the window is one of the calendar: a word without a
/// number.
#[cfg(feature = "calendar")]
pub(super) fn read(max: u64, window: &str) -> Result<Option<Limit>, Fault<'_>> {
    if let Some((unit, rest)) = window.split_once(' ')
        && CalendarUnit::named(unit).is_some()
    {
        let word = rest.split(' ').next().unwrap_or(rest);
        let message = duration::option_meant(word).unwrap_or_else(|| {
            format!("`{unit}` stands alone: a time zone is written behind an `@`, as in `{max}/{unit}@Europe/Berlin`")
        });
        return Err(Fault { at: rest, message });
    }
    let (unit, zone) = window.split_once('@').map_or((window, None), |(unit, zone)| (unit, Some(zone)));
    let Some(found) = CalendarUnit::named(unit) else { return no_unit(max, unit).map_or(Ok(None), Err) };
    let limit = Limit::try_new(max, Duration::from_micros(found.usual_us())).map(|_| Limit::calendar(max, found));
    let limit = limit.map_err(|why| Fault { at: window, message: why.to_string() })?;
    let Some(zone) = zone else { return Ok(Some(limit)) };
    let zone = Zone::named(zone).map_err(|message| Fault { at: zone, message })?;
    Ok(Some(limit.in_zone(zone)))
}

/// What is wrong with a window that is a word, and no unit of the calendar or of time.
#[cfg(feature = "calendar")]
fn no_unit(max: u64, word: &str) -> Option<Fault<'_>> {
    if word.chars().count() < 3 || !word.chars().all(char::is_alphabetic) {
        return None;
    }
    let message = match nearest(word, CalendarUnit::ALL.iter().map(|unit| unit.name())) {
        Some(meant) => format!(
            "unknown unit `{word}`: did you mean `{max}/{meant}`, by the calendar? A time without one has a number, as in \
             `{max}/1d`"
        ),
        None if duration::unit(word).is_some() => return None,
        None => format!(
            "`{word}` is no window: write a time such as `{max}/60s`, or one of the calendar: `{max}/hour`, `{max}/day`, \
             `{max}/week`, `{max}/month` or `{max}/year`"
        ),
    };
    Some(Fault { at: word, message })
}

/// Without the feature there is none.
#[cfg(not(feature = "calendar"))]
pub(super) fn read(max: u64, window: &str) -> Result<Option<Limit>, Fault<'_>> {
    let unit = window.split(['@', ' ']).next().unwrap_or(window);
    let Some(unit) = CalendarUnit::ALL.iter().find(|known| known.name() == unit) else { return Ok(None) };
    let message = format!(
        "`{max}/{unit}` is a quota by the calendar, which takes the feature `calendar` of ratelimit-runtime: turn it on, or \
         write a time such as `{max}/1d`"
    );
    Err(Fault { at: window, message })
}
