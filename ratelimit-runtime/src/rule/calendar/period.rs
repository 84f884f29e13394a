//! [`Period`]: one window of the calendar, and those around it.
//!
//! A moment belongs to the unit that its zone's clock and calendar show. A unit begins with the
//! first moment that shows it and ends where the next one begins; a day that a clock change repeats
//! in part is one unit, an hour that it repeats is two. So periods follow one another without a
//! gap, whatever a zone does.

use super::Calendar;

/// One window, in microseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Period {
    pub(crate) start: u64,
    /// The first moment of the next one.
    pub(crate) end: u64,
}

/// The window of a moment, the one before it and the one after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Instants {
    /// The start of the window before, and the ends of that, of this one and of the next.
    pub(crate) ends: [u64; 4],
}

impl Instants {
    pub(crate) fn this(&self) -> Period {
        let [_, start, end, _] = self.ends;
        Period { start, end }
    }
}

#[cfg(not(feature = "calendar"))]
pub(super) fn instants(_: Calendar, now: u64) -> Instants {
    // There is no calendar window to ask for.
    Instants { ends: [now; 4] }
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

    use super::{Calendar, Instants, Period};
    use crate::rule::calendar::{CalendarUnit, Zone};

    /// The windows that were asked for last. There are as many as units and zones in use.
    static LAST: LazyLock<RwLock<HashMap<Calendar, Instants>>> = LazyLock::new(RwLock::default);

    /// The latest moment that the calendar is asked for: the year 2255.
    const LATEST: u64 = (1 << 53) - 1;

    pub(in super::super) fn instants(calendar: Calendar, now: u64) -> Instants {
        let last = LAST.read().unwrap_or_else(PoisonError::into_inner).get(&calendar).copied();
        if let Some(last) = last
            && (last.this().start..last.this().end).contains(&now)
        {
            return last;
        }
        let zone = calendar.zone.map_or(TimeZone::UTC, Zone::rules);
        let of = |moment| period(calendar.unit, &zone, moment);
        let this = of(now.min(LATEST));
        let before = of(this.start.saturating_sub(1));
        let instants = Instants { ends: [before.start.min(this.start), this.start, this.end, of(this.end).end] };
        LAST.write().unwrap_or_else(PoisonError::into_inner).insert(calendar, instants);
        instants
    }

    /// The window of a moment.
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
                return Period { start: micros(from), end: micros(to) };
            }
            start = next;
        }
    }

    /// The hour that a clock shows, cut where the clock is set.
    fn hour(zone: &TimeZone, moment: Timestamp) -> Period {
        const HOUR: u64 = 3_600_000_000;
        let shown = micros_of_hour(zone.to_datetime(moment));
        let start = micros(moment).saturating_sub(shown);
        let behind = moment.saturating_add(1.nanosecond()).unwrap_or(moment);
        let set = |at: &Timestamp| {
            let before = at.saturating_sub(1.nanosecond()).unwrap_or(*at);
            zone.to_offset(before) != zone.to_offset(*at)
        };
        let last = zone.preceding(behind).next().map(|transition| transition.timestamp()).filter(set);
        let next = zone.following(moment).next().map(|transition| transition.timestamp()).filter(set);
        Period {
            start: last.map_or(start, |last| micros(last).max(start)),
            end: next.map_or(start + HOUR, |next| micros(next).min(start + HOUR)),
        }
    }

    /// How much of its hour a clock shows to be over.
    fn micros_of_hour(shown: DateTime) -> u64 {
        let seconds = i64::from(shown.minute()) * 60 + i64::from(shown.second());
        u64::try_from(seconds * 1_000_000 + i64::from(shown.subsec_nanosecond()) / 1_000).unwrap_or(0)
    }

    /// Where the unit begins that a clock shows.
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

    /// When the zone's clock shows this for the first time, or first shows something later.
    fn first_moment(zone: &TimeZone, shown: DateTime) -> Timestamp {
        let ambiguous = zone.to_ambiguous_timestamp(shown);
        let is_left_out = matches!(ambiguous.offset(), AmbiguousOffset::Gap { .. });
        let moment = ambiguous.compatible().unwrap_or(Timestamp::MAX);
        // By the offset before the gap it would be a moment after the clock has been set.
        let behind = moment.saturating_add(1.nanosecond()).unwrap_or(moment);
        let set = is_left_out.then(|| zone.preceding(behind).next()).flatten();
        set.map_or(moment, |transition| transition.timestamp())
    }

    fn timestamp(micros: u64) -> Timestamp {
        i64::try_from(micros).ok().and_then(|micros| Timestamp::from_microsecond(micros).ok()).unwrap_or(Timestamp::MAX)
    }

    /// 0 before 1970.
    fn micros(moment: Timestamp) -> u64 {
        u64::try_from(moment.as_microsecond()).unwrap_or(0)
    }

    #[cfg(test)]
    mod tests {
        #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

        use super::*;

        fn calendar(unit: CalendarUnit, zone: &str) -> Calendar {
            Calendar { unit, zone: Some(Zone::named(zone).unwrap()) }
        }

        fn at(moment: &str) -> u64 {
            micros(moment.parse().unwrap())
        }

        /// Zone, unit, a moment, and the window that it is in.
        const WINDOWS: &[(&str, CalendarUnit, &str, &str, &str)] = &[
            // Days of 23, 24 and 25 hours.
            ("Europe/Berlin", CalendarUnit::Day, "2026-03-29T12:00Z", "2026-03-28T23:00Z", "2026-03-29T22:00Z"),
            (
                "Europe/Berlin",
                CalendarUnit::Day,
                "2026-07-01T21:59:59.999999Z",
                "2026-06-30T22:00Z",
                "2026-07-01T22:00Z",
            ),
            ("Europe/Berlin", CalendarUnit::Day, "2026-10-25T12:00Z", "2026-10-24T22:00Z", "2026-10-25T23:00Z"),
            // A leap day, and a year without one.
            ("UTC", CalendarUnit::Day, "2028-02-29T00:00Z", "2028-02-29T00:00Z", "2028-03-01T00:00Z"),
            ("UTC", CalendarUnit::Month, "2028-02-29T23:59Z", "2028-02-01T00:00Z", "2028-03-01T00:00Z"),
            ("UTC", CalendarUnit::Month, "2027-02-28T23:59Z", "2027-02-01T00:00Z", "2027-03-01T00:00Z"),
            ("UTC", CalendarUnit::Year, "2028-12-31T23:59:59Z", "2028-01-01T00:00Z", "2029-01-01T00:00Z"),
            // Weeks begin on Monday, also across the end of a year.
            ("UTC", CalendarUnit::Week, "2027-01-03T23:59Z", "2026-12-28T00:00Z", "2027-01-04T00:00Z"),
            ("UTC", CalendarUnit::Week, "2027-01-04T00:00Z", "2027-01-04T00:00Z", "2027-01-11T00:00Z"),
            // Offsets that are no whole hours.
            ("Asia/Kathmandu", CalendarUnit::Hour, "2026-05-01T10:20Z", "2026-05-01T10:15Z", "2026-05-01T11:15Z"),
            ("Asia/Kolkata", CalendarUnit::Day, "2026-05-01T18:29Z", "2026-04-30T18:30Z", "2026-05-01T18:30Z"),
            // An hour that is not shown, one that is shown twice, and a half of one.
            ("Europe/Berlin", CalendarUnit::Hour, "2026-03-29T00:30Z", "2026-03-29T00:00Z", "2026-03-29T01:00Z"),
            ("Europe/Berlin", CalendarUnit::Hour, "2026-10-25T00:30Z", "2026-10-25T00:00Z", "2026-10-25T01:00Z"),
            ("Europe/Berlin", CalendarUnit::Hour, "2026-10-25T01:30Z", "2026-10-25T01:00Z", "2026-10-25T02:00Z"),
            ("Australia/Lord_Howe", CalendarUnit::Hour, "2026-04-04T14:50Z", "2026-04-04T14:00Z", "2026-04-04T15:00Z"),
            ("Australia/Lord_Howe", CalendarUnit::Hour, "2026-04-04T15:10Z", "2026-04-04T15:00Z", "2026-04-04T15:30Z"),
            // A minute that is all there is of an hour, and the rest of the next one.
            ("America/St_Johns", CalendarUnit::Hour, "2006-04-02T03:30:30Z", "2006-04-02T03:30Z", "2006-04-02T03:31Z"),
            ("America/St_Johns", CalendarUnit::Hour, "2006-04-02T03:31Z", "2006-04-02T03:31Z", "2006-04-02T04:30Z"),
            // A day that has no midnight, and the one before it.
            ("America/Sao_Paulo", CalendarUnit::Day, "2018-11-04T12:00Z", "2018-11-04T03:00Z", "2018-11-05T02:00Z"),
            ("America/Sao_Paulo", CalendarUnit::Day, "2018-11-04T02:59Z", "2018-11-03T03:00Z", "2018-11-04T03:00Z"),
            // A clock that was set back to before midnight: the day had begun.
            ("America/St_Johns", CalendarUnit::Day, "2006-10-29T02:29Z", "2006-10-28T02:30Z", "2006-10-29T02:30Z"),
            ("America/St_Johns", CalendarUnit::Day, "2006-10-29T03:00Z", "2006-10-29T02:30Z", "2006-10-30T03:30Z"),
            // A day that a country left out.
            ("Pacific/Apia", CalendarUnit::Day, "2011-12-30T09:59Z", "2011-12-29T10:00Z", "2011-12-30T10:00Z"),
            ("Pacific/Apia", CalendarUnit::Day, "2011-12-30T10:00Z", "2011-12-30T10:00Z", "2011-12-31T10:00Z"),
        ];

        #[test]
        fn windows_of_zones() {
            for (zone, unit, moment, start, end) in WINDOWS {
                let period = calendar(*unit, zone).period(at(moment));
                assert_eq!(period, Period { start: at(start), end: at(end) }, "{unit} in {zone} at {moment}");
            }
        }

        /// Whatever zones do, every moment is in its own window, and windows touch.
        #[test]
        fn windows_follow_one_another() {
            let zones = [
                "America/St_Johns",
                "America/Sao_Paulo",
                "Asia/Beirut",
                "Australia/Lord_Howe",
                "Antarctica/Troll",
                "Pacific/Apia",
                "Pacific/Kwajalein",
                "Africa/Casablanca",
            ];
            let (since, until) = (at("1993-01-01T00:00Z"), at("2027-01-01T00:00Z"));
            for zone in zones {
                let rules = Zone::named(zone).unwrap().rules();
                let set = rules.following(timestamp(since)).map(|transition| micros(transition.timestamp()));
                let moments = set.take_while(|set| *set < until).flat_map(|set| {
                    const MINUTE: u64 = 60_000_000;
                    [set - 1, set, set - 45 * MINUTE, set + 45 * MINUTE, set + 23 * 60 * MINUTE]
                });
                for (moment, unit) in
                    moments.flat_map(|moment| CalendarUnit::ALL.iter().map(move |unit| (moment, unit)))
                {
                    let calendar = calendar(*unit, zone);
                    let Instants { ends: [first, start, end, last] } = calendar.instants(moment);
                    assert!(first < start && start <= moment && moment < end && end < last, "{unit} {zone} {moment}");
                    assert!(
                        end - start <= unit.longest_us(),
                        "{unit} {zone} {moment}: {} s",
                        (end - start) / 1_000_000
                    );
                    assert_eq!(calendar.period(end).start, end, "{unit} in {zone} after {moment}");
                    assert_eq!(calendar.period(end - 1).start, start, "{unit} in {zone} at {moment}");
                }
            }
        }

        #[test]
        fn zones_are_those_of_the_database() {
            assert_eq!(Zone::named("europe/BERLIN").unwrap().name(), "Europe/Berlin");
            assert_eq!(Zone::named("europe/BERLIN"), Zone::named("Europe/Berlin"));
            for wrong in [
                "",
                "Berlin",
                "Europe/Brelin",
                "../etc/passwd",
                "Europe/Berlin ",
                "UTC+1",
                "é",
                "/UTC",
                "localtime",
                "Localtime",
                "posixrules",
            ] {
                assert!(Zone::named(wrong).is_err_and(|message| message.contains("unknown time zone")), "{wrong}");
            }
            assert!(Zone::named("UTC\0").is_err_and(|message| message.contains("`UTC\\0`")));
            assert!(Zone::named(&"A".repeat(1 << 20)).is_err_and(|message| message.len() < 200));
        }

        #[test]
        fn moments_at_the_edges_of_time() {
            for unit in CalendarUnit::ALL {
                let calendar = Calendar { unit: *unit, zone: None };
                for moment in [0, 1, LATEST, u64::MAX] {
                    let Instants { ends: [first, start, end, last] } = calendar.instants(moment);
                    assert!(first <= start && start <= moment && start < end && end < last, "{unit} at {moment}");
                }
            }
        }
    }
}
