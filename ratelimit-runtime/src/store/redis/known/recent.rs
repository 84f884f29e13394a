//! [`Recent`]: the units that this process has lately spent on its busy keys, in a fixed room.
//!
//! A cell belongs to one key at a time. A call on another key lowers the count of the cell by one,
//! and takes the cell over once nothing is left. So keys that are called once, however many, keep
//! no cell from a busy key, and none of them looks busy.

use std::sync::atomic::{AtomicU64, Ordering};

/// The number of cells, a power of two.
const CELLS: usize = 4_096;

pub(super) struct Recent(Box<[AtomicU64]>);

/// The content of a cell, as one number: a tag of its key, the number of the lease, and the units
/// of that lease and of the one before.
#[derive(Clone, Copy)]
struct Cell {
    tag: u16,
    lease: u16,
    current: u16,
    previous: u16,
}

impl Cell {
    #[allow(clippy::cast_possible_truncation, reason = "16 bits each")]
    fn of(bits: u64) -> Self {
        Self {
            tag: bits as u16,
            lease: (bits >> 16) as u16,
            current: (bits >> 32) as u16,
            previous: (bits >> 48) as u16,
        }
    }

    fn bits(self) -> u64 {
        let numbers = [self.previous, self.current, self.lease, self.tag];
        numbers
            .into_iter()
            .fold(0, |bits, number| bits << 16 | u64::from(number))
    }

    /// The cell in this `lease`, after `units` more of the key with this `tag`.
    fn with(self, tag: u16, lease: u16, units: u16) -> Self {
        let (current, previous) = match lease.wrapping_sub(self.lease) {
            0 => (self.current, self.previous),
            1 => (0, self.current),
            _ => (0, 0),
        };
        if tag == self.tag {
            return Self {
                tag,
                lease,
                current: current.saturating_add(units),
                previous,
            };
        }
        match (current, previous) {
            (0, 0) => Self {
                tag,
                lease,
                current: units,
                previous,
            },
            (0, previous) => Self {
                lease,
                previous: previous - 1,
                current,
                ..self
            },
            (current, previous) => Self {
                lease,
                previous,
                current: current - 1,
                ..self
            },
        }
    }
}

impl Recent {
    pub(super) fn new() -> Self {
        Self((0..CELLS).map(|_| AtomicU64::new(0)).collect())
    }

    /// Adds units that were just spent on the key with this hash. Returns the number within the
    /// last `lease`; 0 if the cell belongs to another key. Times are in microseconds.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "a hash and a number of leases are cut to what a cell has room for"
    )]
    pub(super) fn add(&self, hash: u64, units: u64, now: u64, lease: u64) -> u64 {
        let Some(cell) = self.0.get((hash >> 24) as usize & (CELLS - 1)) else {
            return 0;
        };
        let (tag, number) = ((hash >> 48) as u16, (now / lease.max(1)) as u16);
        let units = u16::try_from(units).unwrap_or(u16::MAX);
        let with = |bits| Some(Cell::of(bits).with(tag, number, units).bits());
        let before = cell.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with);
        let Cell {
            tag: of,
            current,
            previous,
            ..
        } = Cell::of(before.unwrap_or_default()).with(tag, number, units);
        if of != tag {
            return 0;
        }
        let ahead = lease - now % lease.max(1);
        u64::from(current) + u64::from(previous) * ahead / lease.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: u64 = 100_000;
    const KEY: u64 = 7 << 48;

    #[test]
    fn what_is_spent_counts_for_a_lease() {
        let recent = Recent::new();
        assert_eq!(recent.add(KEY, 10, LEASE, LEASE), 10);
        assert_eq!(recent.add(KEY, 10, 2 * LEASE - 1, LEASE), 20);
        assert_eq!(recent.add(KEY, 0, 2 * LEASE + LEASE / 2, LEASE), 10);
        assert_eq!(recent.add(KEY, 1, 4 * LEASE, LEASE), 1);
    }

    #[test]
    fn keys_that_are_called_once_neither_look_busy_nor_hide_a_busy_one() {
        let recent = Recent::new();
        for call in 0..10 {
            assert_eq!(recent.add(KEY, 10, LEASE + call, LEASE), 10 + call);
            for other in 0..9 {
                assert_eq!(recent.add((100 + other) << 48, 1, LEASE + call, LEASE), 0);
            }
        }
    }
}
