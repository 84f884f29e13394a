//! [`CalendarUnit`]: the length of a calendar window.

use std::fmt;

const HOUR: u64 = 60 * 60 * 1_000_000;
const DAY: u64 = 24 * HOUR;

/// A unit of the calendar. Its windows begin where the unit begins on the clock and calendar of a
/// time zone, so their lengths vary as those of the units do: a day has 23, 24 or 25 hours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum CalendarUnit {
    /// From one full hour to the next. An hour that a clock change repeats is two windows.
    Hour = 1,
    /// From midnight to midnight; on a day whose midnight a clock change skips, from its first
    /// moment.
    Day,
    /// From the midnight at which a Monday begins to the next.
    Week,
    /// From the first of a month to the first of the next.
    Month,
    /// From the first of January to the next.
    Year,
}

impl CalendarUnit {
    /// All units, the shortest first.
    pub const ALL: &'static [Self] = &[Self::Hour, Self::Day, Self::Week, Self::Month, Self::Year];

    /// The name that attributes and configurations write.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }

    /// A duration of about this length, to suggest instead.
    pub(crate) const fn span(self) -> &'static str {
        match self {
            Self::Hour => "1h",
            Self::Day => "1d",
            Self::Week => "7d",
            Self::Month => "30d",
            Self::Year => "365d",
        }
    }

    /// The unit with this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|unit| unit.name() == name)
    }

    /// The longest window while no clock is set, in microseconds: 31 days of a month, 366 of a
    /// year.
    pub(crate) const fn usual_us(self) -> u64 {
        match self {
            Self::Hour => HOUR,
            Self::Day => DAY,
            Self::Week => 7 * DAY,
            Self::Month => 31 * DAY,
            Self::Year => 366 * DAY,
        }
    }

    /// An upper bound of windows, in microseconds: clocks are set back by at most three hours.
    pub(crate) const fn longest_us(self) -> u64 {
        self.usual_us() + 3 * HOUR
    }
}

impl fmt::Display for CalendarUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
