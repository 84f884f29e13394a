//! When windows of the calendar begin and end, whatever time zones do.

use std::time::{Duration, SystemTime};

use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Algorithm, CalendarUnit, Key, Limit, MemoryStore, RateLimiter, Rule};

const HOUR: u64 = 60 * 60 * 1_000_000;
const DAY: u64 = 24 * HOUR;

/// Zone, unit, a moment, and the window that it is in.
const WINDOWS: &[(&str, CalendarUnit, &str, &str, &str)] = &[
    // Days of 23, 24 and 25 hours.
    (
        "Europe/Berlin",
        CalendarUnit::Day,
        "2026-03-29T12:00Z",
        "2026-03-28T23:00Z",
        "2026-03-29T22:00Z",
    ),
    (
        "Europe/Berlin",
        CalendarUnit::Day,
        "2026-07-01T21:59:59.999999Z",
        "2026-06-30T22:00Z",
        "2026-07-01T22:00Z",
    ),
    (
        "Europe/Berlin",
        CalendarUnit::Day,
        "2026-10-25T12:00Z",
        "2026-10-24T22:00Z",
        "2026-10-25T23:00Z",
    ),
    // A leap day, and a year without one.
    (
        "UTC",
        CalendarUnit::Day,
        "2028-02-29T00:00Z",
        "2028-02-29T00:00Z",
        "2028-03-01T00:00Z",
    ),
    (
        "UTC",
        CalendarUnit::Month,
        "2028-02-29T23:59Z",
        "2028-02-01T00:00Z",
        "2028-03-01T00:00Z",
    ),
    (
        "UTC",
        CalendarUnit::Month,
        "2027-02-28T23:59Z",
        "2027-02-01T00:00Z",
        "2027-03-01T00:00Z",
    ),
    (
        "UTC",
        CalendarUnit::Year,
        "2028-12-31T23:59:59Z",
        "2028-01-01T00:00Z",
        "2029-01-01T00:00Z",
    ),
    // Weeks begin on Monday, also across the end of a year.
    (
        "UTC",
        CalendarUnit::Week,
        "2027-01-03T23:59Z",
        "2026-12-28T00:00Z",
        "2027-01-04T00:00Z",
    ),
    (
        "UTC",
        CalendarUnit::Week,
        "2027-01-04T00:00Z",
        "2027-01-04T00:00Z",
        "2027-01-11T00:00Z",
    ),
    // Offsets that are no whole hours.
    (
        "Asia/Kathmandu",
        CalendarUnit::Hour,
        "2026-05-01T10:20Z",
        "2026-05-01T10:15Z",
        "2026-05-01T11:15Z",
    ),
    (
        "Asia/Kolkata",
        CalendarUnit::Day,
        "2026-05-01T18:29Z",
        "2026-04-30T18:30Z",
        "2026-05-01T18:30Z",
    ),
    // A skipped hour, a repeated hour, and half an hour.
    (
        "Europe/Berlin",
        CalendarUnit::Hour,
        "2026-03-29T00:30Z",
        "2026-03-29T00:00Z",
        "2026-03-29T01:00Z",
    ),
    (
        "Europe/Berlin",
        CalendarUnit::Hour,
        "2026-10-25T00:30Z",
        "2026-10-25T00:00Z",
        "2026-10-25T01:00Z",
    ),
    (
        "Europe/Berlin",
        CalendarUnit::Hour,
        "2026-10-25T01:30Z",
        "2026-10-25T01:00Z",
        "2026-10-25T02:00Z",
    ),
    (
        "Australia/Lord_Howe",
        CalendarUnit::Hour,
        "2026-04-04T14:50Z",
        "2026-04-04T14:00Z",
        "2026-04-04T15:00Z",
    ),
    (
        "Australia/Lord_Howe",
        CalendarUnit::Hour,
        "2026-04-04T15:10Z",
        "2026-04-04T15:00Z",
        "2026-04-04T15:30Z",
    ),
    // An hour of one minute, and the shorter hour behind it.
    (
        "America/St_Johns",
        CalendarUnit::Hour,
        "2006-04-02T03:30:30Z",
        "2006-04-02T03:30Z",
        "2006-04-02T03:31Z",
    ),
    (
        "America/St_Johns",
        CalendarUnit::Hour,
        "2006-04-02T03:31Z",
        "2006-04-02T03:31Z",
        "2006-04-02T04:30Z",
    ),
    // A day that has no midnight, and the one before it.
    (
        "America/Sao_Paulo",
        CalendarUnit::Day,
        "2018-11-04T12:00Z",
        "2018-11-04T03:00Z",
        "2018-11-05T02:00Z",
    ),
    (
        "America/Sao_Paulo",
        CalendarUnit::Day,
        "2018-11-04T02:59Z",
        "2018-11-03T03:00Z",
        "2018-11-04T03:00Z",
    ),
    // A clock that was set back to before midnight: the day had begun.
    (
        "America/St_Johns",
        CalendarUnit::Day,
        "2006-10-29T02:29Z",
        "2006-10-28T02:30Z",
        "2006-10-29T02:30Z",
    ),
    (
        "America/St_Johns",
        CalendarUnit::Day,
        "2006-10-29T03:00Z",
        "2006-10-29T02:30Z",
        "2006-10-30T03:30Z",
    ),
    // A day that a country left out.
    (
        "Pacific/Apia",
        CalendarUnit::Day,
        "2011-12-30T09:59Z",
        "2011-12-29T10:00Z",
        "2011-12-30T10:00Z",
    ),
    (
        "Pacific/Apia",
        CalendarUnit::Day,
        "2011-12-30T10:00Z",
        "2011-12-30T10:00Z",
        "2011-12-31T10:00Z",
    ),
];

/// A limiter by the calendar, and a clock that is set to a moment for each question.
struct Calendar {
    clock: FakeClock,
    limiter: RateLimiter,
    rule: Rule,
    asked: u64,
}

impl Calendar {
    fn new(unit: CalendarUnit, zone: &str) -> Self {
        let clock = FakeClock::new();
        let limiter = RateLimiter::with_store(MemoryStore::new().with_clock(clock.clone()));
        let limit: Limit = format!("1/{unit}@{zone}").parse().unwrap();
        let rule = Rule::named("windows", limit).with_algorithm(Algorithm::FixedWindow);
        Self {
            clock,
            limiter,
            rule,
            asked: 0,
        }
    }

    /// When the window ends that this moment is in.
    async fn end_after(&mut self, moment: u64) -> u64 {
        self.clock
            .set(SystemTime::UNIX_EPOCH + Duration::from_micros(moment));
        self.asked += 1;
        let decision = self
            .limiter
            .acquire(&self.rule, &Key::of(&self.asked))
            .await
            .unwrap();
        moment + u64::try_from(decision.reset_after().as_micros()).unwrap()
    }
}

/// Microseconds since 1970.
fn at(moment: &str) -> u64 {
    moment
        .parse::<jiff::Timestamp>()
        .unwrap()
        .as_microsecond()
        .try_into()
        .unwrap()
}

#[tokio::test]
async fn windows_begin_and_end_as_zone_databases_say() {
    for (zone, unit, moment, start, end) in WINDOWS {
        let mut calendar = Calendar::new(*unit, zone);
        let what = format!("{unit} in {zone} at {moment}");
        assert_eq!(calendar.end_after(at(moment)).await, at(end), "{what}");
        assert_eq!(calendar.end_after(at(start)).await, at(end), "{what}");
        assert_eq!(calendar.end_after(at(start) - 1).await, at(start), "{what}");
    }
}

#[tokio::test]
async fn every_moment_is_in_one_window_and_windows_touch() {
    const ZONES: [&str; 8] = [
        "America/St_Johns",
        "America/Sao_Paulo",
        "Asia/Beirut",
        "Australia/Lord_Howe",
        "Antarctica/Troll",
        "Pacific/Apia",
        "Pacific/Kwajalein",
        "Africa/Casablanca",
    ];
    for zone in ZONES {
        let mut of_hours = Calendar::new(CalendarUnit::Hour, zone);
        for &unit in CalendarUnit::ALL
            .iter()
            .filter(|unit| **unit != CalendarUnit::Hour)
        {
            let mut calendar = Calendar::new(unit, zone);
            let longest = Limit::calendar(1, unit).window() + Duration::from_micros(3 * HOUR);
            let mut start = calendar.end_after(at("1993-01-01T00:00Z")).await;
            while start < at("2027-01-01T00:00Z") {
                let end = calendar.end_after(start).await;
                assert!(
                    end > start && Duration::from_micros(end - start) <= longest,
                    "{unit} in {zone} at {start}"
                );
                assert_eq!(
                    calendar.end_after(end - 1).await,
                    end,
                    "{unit} in {zone} before {end}"
                );
                if unit == CalendarUnit::Day && end - start != DAY {
                    hours(&mut of_hours, start, end).await;
                }
                start = end;
            }
        }
    }
}

/// The hours of a day on which a clock is set end with it, and an hour that comes twice is two.
async fn hours(calendar: &mut Calendar, mut start: u64, end: u64) {
    while start < end {
        let next = calendar.end_after(start).await;
        assert!(
            next > start && next - start <= HOUR,
            "the hour after {start}"
        );
        assert_eq!(
            calendar.end_after(next - 1).await,
            next,
            "the hour before {next}"
        );
        start = next;
    }
    assert_eq!(start, end, "a day ends with an hour");
}
