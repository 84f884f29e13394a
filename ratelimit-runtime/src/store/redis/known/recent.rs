//! [`Recent`]: the units that this process has lately spent on its busy keys, in a fixed room.
//!
//! A cell belongs to one key at a time. A call on another key lowers the count of the cell by one,
//! and takes the cell over once nothing is left. So keys that are called once, however many, keep
//! no cell from a busy key, and none of them looks busy.

use super::sets::{SET_SIZE, Sets};

/// The number of cells, a power of two.
const CELLS: usize = 4_096;
/// The most units that count, which are the most that one question takes.
pub(super) const MOST: u64 = 65_535;

pub(super) struct Recent(Sets<Cell>);

/// The key of a cell and the length of its lease, the number of the lease that was current last,
/// and the units spent in this one and in the one before.
#[derive(Default)]
struct Cell {
    hash: u64,
    lease: u64,
    number: u64,
    current: u64,
    previous: u64,
}

impl Recent {
    pub(super) fn new() -> Self {
        Self(Sets::new(CELLS * SET_SIZE))
    }

    /// Adds units that were just spent on the key with this hash. Returns the number within the
    /// last `lease`; 0 if the cell belongs to another key. Times are in microseconds.
    pub(super) fn add(&self, hash: u64, units: u64, now: u64, lease: u64) -> u64 {
        let Some(mut cell) = self.0.write(hash) else {
            return 0;
        };
        let cell = &mut *cell;
        // By the lease of the cell's own key, whoever calls.
        let number = now / cell.lease.max(1);
        if number != cell.number {
            let is_next = number == cell.number + 1;
            cell.previous = if is_next { cell.current } else { 0 };
            (cell.number, cell.current) = (number, 0);
        }
        let is_free = cell.current == 0 && cell.previous == 0;
        if is_free || cell.hash == hash && cell.lease != lease {
            *cell = Cell {
                hash,
                lease,
                number: now / lease,
                ..Cell::default()
            };
        }
        if cell.hash != hash {
            let count = if cell.current > 0 {
                &mut cell.current
            } else {
                &mut cell.previous
            };
            *count -= 1;
            return 0;
        }
        cell.current = (cell.current + units).min(MOST);
        let ahead = lease - now % lease;
        cell.current + cell.previous * ahead / lease
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

    #[test]
    fn calls_under_another_lease_do_not_hide_a_busy_key() {
        for other in [LEASE / 10, 10 * LEASE] {
            let recent = Recent::new();
            for call in 0..10 {
                let now = 8 * LEASE + call;
                assert_eq!(recent.add(KEY, 10, now, LEASE), 10 + 9 * call);
                assert_eq!(recent.add((100 + call) << 48, 1, now, other), 0);
            }
            assert_eq!(recent.add(KEY, 0, 9 * LEASE, LEASE), 90);
        }
    }

    #[test]
    fn a_key_whose_lease_changes_is_counted_anew() {
        let recent = Recent::new();
        assert_eq!(recent.add(KEY, 10, 8 * LEASE, 10 * LEASE), 10);
        assert_eq!(recent.add(KEY, 1, 9 * LEASE, LEASE), 1);
        assert_eq!(recent.add(KEY, 1, 9 * LEASE + 1, LEASE), 2);
    }
}
