//! Group commit, without I/O: which charges share a call, and how many may be in flight at once.

use slab::Slab;

pub(super) mod batch;
pub(super) mod batches;
pub(super) mod charge;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzzing;
pub(super) mod in_flight_limit;
pub(super) mod members;
pub(super) mod records;

/// Which charges and groups share calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    None,
    /// Those of one key, or of the same keys.
    Keys,
    All,
}

/// An empty slab keeps capacity for this many values; more is given back after a flood.
const KEPT: usize = 1024;

/// Takes out the value at an index, if there is one.
#[inline]
fn remove<T>(slab: &mut Slab<T>, index: usize) -> Option<T> {
    let value = slab.try_remove(index);
    if slab.is_empty() && slab.capacity() > KEPT {
        *slab = Slab::new();
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_flood_took_is_given_back() {
        let mut slab = Slab::new();
        let all: Vec<usize> = (0..=KEPT).map(|value| slab.insert(value)).collect();
        for index in all {
            assert!(slab.capacity() > KEPT);
            remove(&mut slab, index);
            remove(&mut slab, index);
        }
        assert_eq!((slab.len(), slab.capacity()), (0, 0));
    }
}
