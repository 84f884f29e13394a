//! [`Calendar`]: quotas by the calendar, from midnight to midnight and from the first to the first.

mod period;
mod unit;
mod zone;

use std::fmt;

pub use self::unit::CalendarUnit;
pub(crate) use self::zone::Zone;

/// A time that no store's clock shows, in microseconds.
const NEVER: u64 = 1 << 63;

/// The windows of a limit by the calendar: each is a unit long, in a time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Calendar {
    pub(crate) unit: CalendarUnit,
    /// The zone of the rule if this is `None`; UTC if the rule has none.
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

    /// In microseconds since 1970: where the window of `now` begins, where it ends, and where the next
    /// one ends.
    pub(crate) fn instants(self, now: u64) -> [u64; 3] {
        period::instants(self, now)
    }

    /// The name of its zone; `UTC` if it has none.
    pub(crate) fn zone_name(self) -> &'static str {
        self.zone.map_or("UTC", Zone::name)
    }
}

/// As a limit shows it: `day`, and `day@Europe/Berlin` where it has a zone of its own.
impl fmt::Display for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.zone {
            None => write!(f, "{}", self.unit),
            Some(zone) => write!(f, "{}@{}", self.unit, zone.name()),
        }
    }
}
