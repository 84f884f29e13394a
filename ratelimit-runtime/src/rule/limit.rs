//! [`Limit`]: how many calls are admitted in which time, and the bounds of both.

use crate::parse_error::ParseError;
use std::time::Duration;

use super::calendar::{Calendar, CalendarUnit, Zone};

/// The most limits of a rule.
pub(super) const MAX_LIMITS: usize = 8;

/// A limit: calls cost at most `max` together in any `window`, or in each unit of the calendar. Its
/// text is `5/1m`, or `500/day`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Limit {
    max: u64,
    window_us: u64,
    /// 0 stands for `max`.
    burst: u64,
    calendar: Option<Calendar>,
}

impl Limit {
    /// The longest window: 366 days.
    pub const MAX_WINDOW: Duration = Duration::from_secs(366 * 24 * 60 * 60);

    /// The largest count that a limit can hold: 2⁵² − 1, so that Redis scripts, which count in
    /// doubles, add two of them exactly. A larger `max` or burst is cut to it. A cost above it is
    /// above every limit.
    pub const MAX_COUNT: u64 = (1 << 52) - 1;

    /// At most `max` in any `window`. A `max` of 0 admits nothing; a `max` above
    /// [`MAX_COUNT`](Self::MAX_COUNT) is cut to that.
    ///
    /// # Panics
    ///
    /// If `window` is shorter than a millisecond or longer than [`MAX_WINDOW`](Self::MAX_WINDOW);
    /// in a constant, at compile time.
    #[must_use]
    pub const fn new(max: u64, window: Duration) -> Self {
        match window_fault(window) {
            #[allow(
                clippy::panic,
                reason = "documented; in a constant it is a compile error"
            )]
            Some(fault) => panic!("{}", fault),
            None => Self::of(max, window),
        }
    }

    /// At most `max` in any `window`, for a window that is only known at run time.
    ///
    /// # Errors
    ///
    /// If `window` is shorter than a millisecond or longer than [`MAX_WINDOW`](Self::MAX_WINDOW).
    pub fn try_new(max: u64, window: Duration) -> Result<Self, ParseError> {
        window_fault(window).map_or_else(
            || Ok(Self::of(max, window)),
            |fault| Err(fault.to_owned().into()),
        )
    }

    const fn of(max: u64, window: Duration) -> Self {
        #[allow(clippy::cast_possible_truncation, reason = "at most 366 days")]
        let window_us = window.as_micros() as u64;
        Self {
            max: 0,
            window_us,
            burst: 0,
            calendar: None,
        }
        .with_max(max)
    }

    /// At most `max` in any second.
    #[must_use]
    pub const fn per_second(max: u64) -> Self {
        Self::new(max, Duration::from_secs(1))
    }

    /// At most `max` in any minute.
    #[must_use]
    pub const fn per_minute(max: u64) -> Self {
        Self::new(max, Duration::from_secs(60))
    }

    /// At most `max` in any hour.
    #[must_use]
    pub const fn per_hour(max: u64) -> Self {
        Self::new(max, Duration::from_secs(60 * 60))
    }

    /// At most `max` in any 24 hours.
    #[must_use]
    pub const fn per_day(max: u64) -> Self {
        Self::new(max, Duration::from_secs(24 * 60 * 60))
    }

    /// At most `max` in each hour, day, week, month or year of the calendar: 500 from midnight to
    /// midnight, where [`per_day`](Self::per_day) is 500 in any 24 hours. The time zone is that of
    /// the rule or policy, by default UTC.
    ///
    /// Only [`Algorithm::FixedWindow`](crate::Algorithm::FixedWindow) keeps calendar quotas; under
    /// another algorithm each call is `Misconfigured`. This needs the feature `calendar`.
    ///
    /// ```
    /// use ratelimit_runtime::{Algorithm, CalendarUnit, Limit, Rule};
    ///
    /// static EXPORT: Rule = Rule::new("export", Limit::calendar(500, CalendarUnit::Day))
    ///     .and(Limit::calendar(10_000, CalendarUnit::Month))
    ///     .with_algorithm(Algorithm::FixedWindow)
    ///     .with_zone("Europe/Berlin");
    /// assert_eq!(EXPORT.limits()[0].to_string(), "500/day");
    /// ```
    #[cfg(feature = "calendar")]
    #[must_use]
    pub const fn calendar(max: u64, unit: CalendarUnit) -> Self {
        let calendar = Some(Calendar { unit, zone: None });
        Self {
            max: 0,
            window_us: unit.usual_us(),
            burst: 0,
            calendar,
        }
        .with_max(max)
    }

    /// Without the feature `calendar`, a compile error in the `static` of an attribute.
    #[cfg(not(feature = "calendar"))]
    #[doc(hidden)]
    #[must_use]
    #[allow(
        clippy::panic,
        reason = "in the static of an attribute it is a compile error"
    )]
    pub const fn calendar(_: u64, _: CalendarUnit) -> Self {
        panic!(
            "a calendar quota such as `500/day` needs the feature `calendar` of ratelimit-runtime: turn it on, or write `500/1d` for any 24 hours"
        )
    }

    /// Sets `max`; one above [`MAX_COUNT`](Self::MAX_COUNT) counts as that.
    #[must_use]
    pub const fn with_max(mut self, max: u64) -> Self {
        self.max = if max > Self::MAX_COUNT {
            Self::MAX_COUNT
        } else {
            max
        };
        self
    }

    /// Sets the cost that a bucket algorithm admits at once, which is `max` by default. Other
    /// algorithms have no burst: with one, each call is `Misconfigured`.
    ///
    /// A bucket refills within [`MAX_WINDOW`](Self::MAX_WINDOW): a larger burst is cut to the
    /// largest that does.
    ///
    /// # Panics
    ///
    /// If `burst` is 0, which would admit nothing.
    #[must_use]
    pub const fn with_burst(mut self, burst: u64) -> Self {
        assert!(burst > 0, "the burst of a limit is at least 1");
        self.burst = if burst > Self::MAX_COUNT {
            Self::MAX_COUNT
        } else {
            burst
        };
        self
    }

    /// `true` if a burst is set.
    pub(super) const fn has_burst(&self) -> bool {
        self.burst > 0
    }

    /// The cost that a bucket algorithm admits at once: the burst, or `max`; 0 if `max` is 0. Other
    /// algorithms admit `max`.
    #[must_use]
    #[inline]
    pub const fn capacity(&self) -> u64 {
        if self.burst == 0 || self.max == 0 {
            return self.max;
        }
        if self.burst <= self.max {
            return self.burst;
        }
        let most = self.max as u128 * Self::MAX_WINDOW.as_micros() / self.window_us as u128;
        #[allow(
            clippy::cast_possible_truncation,
            reason = "no more than a burst, which has 64 bits"
        )]
        if most < self.burst as u128 {
            most as u64
        } else {
            self.burst
        }
    }

    /// The cost that one window admits, by all calls together.
    #[must_use]
    #[inline]
    pub const fn max(&self) -> u64 {
        self.max
    }

    /// The window. For a calendar quota, the longest that its unit lasts without a change between
    /// winter and summer time: 24 hours for a day, 31 days for a month.
    #[must_use]
    pub const fn window(&self) -> Duration {
        Duration::from_micros(self.window_us)
    }

    /// [`window`](Self::window) in microseconds.
    #[inline]
    pub(crate) const fn window_us(&self) -> u64 {
        self.window_us
    }

    /// The unit of a calendar quota; `None` of any other limit.
    #[must_use]
    #[inline]
    pub const fn calendar_unit(&self) -> Option<CalendarUnit> {
        match self.calendar {
            Some(calendar) => Some(calendar.unit),
            None => None,
        }
    }

    /// The time zone of a calendar quota; `None` where the zone of its rule or policy applies.
    #[must_use]
    pub fn zone(&self) -> Option<&'static str> {
        Some(self.calendar?.zone?.name())
    }

    #[inline]
    pub(crate) const fn by_calendar(&self) -> Option<Calendar> {
        self.calendar
    }

    /// The longest that the window can be, in microseconds.
    #[inline]
    pub(crate) const fn longest_us(&self) -> u64 {
        match self.calendar {
            None => self.window_us,
            Some(calendar) => calendar.unit.longest_us(),
        }
    }

    /// Sets the time zone, if this is a calendar quota without one.
    pub(super) fn in_zone(mut self, zone: Zone) -> Self {
        if let Some(calendar @ Calendar { zone: None, .. }) = &mut self.calendar {
            calendar.zone = Some(zone);
        }
        self
    }

    /// The end of the window that a charge at `now` begins, in microseconds since 1970.
    #[inline]
    pub(crate) fn end_of_window(&self, now: u64) -> u64 {
        match self.by_calendar() {
            None => now + self.window_us,
            Some(calendar) => calendar.end_after(now),
        }
    }
}

/// The error for the window of a limit, if that is out of bounds.
const fn window_fault(window: Duration) -> Option<&'static str> {
    match window.as_micros() {
        ..1_000 => Some("the window of a limit is at least one millisecond"),
        micros if micros > Limit::MAX_WINDOW.as_micros() => {
            Some("the window of a limit is at most 366 days")
        }
        _ => None,
    }
}
