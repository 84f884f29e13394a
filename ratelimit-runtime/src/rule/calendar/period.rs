//! The calendar window of a moment, and the next.
//!
//! A moment belongs to the unit that the clock and the calendar of its zone show. A unit begins
//! with the first moment that shows it and ends where the next one begins: a day of which a clock
//! change repeats a part is one unit, an hour that it repeats is two. So periods have no gaps in
//! any zone.

#[cfg(not(feature = "calendar"))]
use super::{CalendarUnit, Zone};

#[cfg(not(feature = "calendar"))]
pub(super) fn instants(_: CalendarUnit, _: Option<Zone>, now: u64) -> [u64; 3] {
    debug_assert!(false, "without the feature no limit is a calendar quota");
    [now; 3]
}

#[cfg(feature = "calendar")]
pub(super) use self::by_calendar::instants;

#[cfg(feature = "calendar")]
mod by_calendar {
    use std::collections::HashMap;
    use std::sync::{LazyLock, PoisonError, RwLock};

    use jiff::civil::{Date, DateTime, date};
    use jiff::tz::{AmbiguousOffset, TimeZone};
    use jiff::{Span, Timestamp, ToSpan as _};

    use crate::rule::calendar::{CalendarUnit, Zone};

    type Windows = HashMap<(CalendarUnit, Option<Zone>), [u64; 3]>;

    /// The windows that were looked up last, one for each unit and zone in use.
    static LAST: LazyLock<RwLock<Windows>> = LazyLock::new(RwLock::default);

    /// The latest moment for which a window is computed, in the year 2255.
    const LATEST: u64 = (1 << 53) - 1;

    /// One window, in microseconds since 1970.
    struct Period {
        start: u64,
        /// The first moment of the next window.
        end: u64,
    }

    pub(in super::super) fn instants(unit: CalendarUnit, zone: Option<Zone>, now: u64) -> [u64; 3] {
        let last = LAST
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&(unit, zone))
            .copied();
        if let Some(last @ [start, end, _]) = last
            && (start..end).contains(&now)
        {
            return last;
        }
        let rules = zone.map_or(TimeZone::UTC, Zone::rules);
        let of = |moment| period(unit, &rules, moment);
        let Period { start, end } = of(now.min(LATEST));
        let instants = [start, end, of(end).end];
        LAST.write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert((unit, zone), instants);
        instants
    }

    /// The window that holds a moment.
    fn period(unit: CalendarUnit, zone: &TimeZone, moment: u64) -> Period {
        let moment = timestamp(moment);
        if unit == CalendarUnit::Hour {
            return hour(zone, moment);
        }
        let mut start = beginning(unit, zone.to_datetime(moment));
        // Where a clock is set back over the beginning of a unit, the one before is shown again.
        loop {
            let next = start.saturating_add(span(unit));
            let (from, to) = (first_moment(zone, start), first_moment(zone, next));
            if moment < to || next == start {
                return Period {
                    start: micros(from),
                    end: micros(to),
                };
            }
            start = next;
        }
    }

    /// The hour that a clock shows, cut where the clock is set.
    fn hour(zone: &TimeZone, moment: Timestamp) -> Period {
        const HOUR: u64 = 3_600_000_000;
        let shown = micros_of_hour(zone.to_datetime(moment));
        let start = micros(moment).saturating_sub(shown);
        let set = |at: &Timestamp| zone.to_offset(moved(*at, -1)) != zone.to_offset(*at);
        let last = zone
            .preceding(moved(moment, 1))
            .next()
            .map(|transition| transition.timestamp())
            .filter(set);
        let next = zone
            .following(moment)
            .next()
            .map(|transition| transition.timestamp())
            .filter(set);
        Period {
            start: last.map_or(start, |last| micros(last).max(start)),
            end: next.map_or(start + HOUR, |next| micros(next).min(start + HOUR)),
        }
    }

    /// The microseconds of the hour that have passed by the clock.
    fn micros_of_hour(shown: DateTime) -> u64 {
        // None of them is negative.
        let of = |number: i8| u64::from(number.unsigned_abs());
        let seconds = of(shown.minute()) * 60 + of(shown.second());
        seconds * 1_000_000 + u64::from(shown.subsec_nanosecond().unsigned_abs()) / 1_000
    }

    /// The beginning of the unit that a clock shows.
    fn beginning(unit: CalendarUnit, shown: DateTime) -> DateTime {
        let midnight = |date: Date| date.at(0, 0, 0, 0);
        let day = shown.date();
        match unit {
            CalendarUnit::Hour | CalendarUnit::Day => midnight(day),
            CalendarUnit::Week => {
                let since_monday = i64::from(day.weekday().to_monday_zero_offset());
                midnight(day.saturating_sub(since_monday.days()))
            }
            CalendarUnit::Month => midnight(day.first_of_month()),
            CalendarUnit::Year => midnight(date(day.year(), 1, 1)),
        }
    }

    fn span(unit: CalendarUnit) -> Span {
        match unit {
            CalendarUnit::Hour | CalendarUnit::Day => 1.day(),
            CalendarUnit::Week => 1.week(),
            CalendarUnit::Month => 1.month(),
            CalendarUnit::Year => 1.year(),
        }
    }

    /// The first moment at which the zone's clock shows `shown` or, if it skips that, a later time.
    fn first_moment(zone: &TimeZone, shown: DateTime) -> Timestamp {
        let ambiguous = zone.to_ambiguous_timestamp(shown);
        let is_left_out = matches!(ambiguous.offset(), AmbiguousOffset::Gap { .. });
        let moment = ambiguous.compatible();
        debug_assert!(moment.is_ok(), "{LATEST} is long before the last moment");
        let moment = moment.unwrap_or(Timestamp::MAX);
        // By the offset before the gap it would be a moment after the clock has been set.
        let behind = moved(moment, 1);
        let set = is_left_out.then(|| zone.preceding(behind).next()).flatten();
        set.map_or(moment, |transition| transition.timestamp())
    }

    /// `moment` moved by this many nanoseconds.
    fn moved(moment: Timestamp, nanoseconds: i64) -> Timestamp {
        let moved = moment.saturating_add(nanoseconds.nanoseconds());
        debug_assert!(moved.is_ok(), "the length of a nanosecond does not vary");
        moved.unwrap_or(moment)
    }

    fn timestamp(micros: u64) -> Timestamp {
        let moment = i64::try_from(micros).map(Timestamp::from_microsecond);
        debug_assert!(
            matches!(moment, Ok(Ok(_))),
            "{LATEST} is long before the last moment"
        );
        moment.ok().and_then(Result::ok).unwrap_or(Timestamp::MAX)
    }

    /// The microseconds since 1970; 0 before.
    fn micros(moment: Timestamp) -> u64 {
        u64::try_from(moment.as_microsecond()).unwrap_or(0)
    }
}
