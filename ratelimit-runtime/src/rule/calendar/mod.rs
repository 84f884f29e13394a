//! [`Calendar`]: windows by the calendar, such as a day from midnight to midnight, for quotas that
//! are sold or granted by the day, week or month.
//!
//! The process works out where a window ends, from the tz database, because a script on Redis has
//! none.

mod period;
mod unit;
mod zone;

use std::fmt;

pub use self::unit::CalendarUnit;
pub(crate) use self::zone::Zone;

/// A time that no store's clock shows, in microseconds.
const NEVER: u64 = 1 << 63;

/// The windows of a limit by the calendar: each is one unit of a time zone's calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Calendar {
    pub(crate) unit: CalendarUnit,
    /// The time zone; `None` for that of the rule, or UTC if the rule has none.
    pub(crate) zone: Option<Zone>,
}

impl Calendar {
    /// The end of the window that holds `now`, in microseconds since 1970.
    #[cold]
    pub(crate) fn end_after(self, now: u64) -> u64 {
        let [_, end, _] = self.instants(now);
        // Later than the calendar knows: a window that never ends, so that no call begins it anew.
        if end > now { end } else { NEVER }
    }

    /// The beginning and the end of the window that holds `now`, and the end of the next one, in
    /// microseconds since 1970.
    pub(crate) fn instants(self, now: u64) -> [u64; 3] {
        period::instants(self.unit, self.zone, now)
    }

    /// The name of the time zone; `UTC` if it has none.
    pub(crate) fn zone_name(self) -> &'static str {
        self.zone.map_or("UTC", Zone::name)
    }
}

/// Shown as in a limit: `day`, or `day@Europe/Berlin` with a time zone of its own.
impl fmt::Display for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.zone {
            None => write!(f, "{}", self.unit),
            Some(zone) => write!(f, "{}@{}", self.unit, zone.name()),
        }
    }
}
