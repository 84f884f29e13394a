//! [`Slab`]: values by number, in one block of memory that is used over and over.

use std::ops::{Index, IndexMut};

/// An empty slab keeps room for this many; more is given back after a flood.
const KEPT: usize = 1024;

/// Whoever holds an index has not removed it: anything else is a mistake in this crate, and panics.
#[derive(Debug)]
pub(super) struct Slab<T>(slab::Slab<T>);

impl<T> Slab<T> {
    pub(super) const fn new() -> Self {
        Self(slab::Slab::new())
    }

    pub(super) fn insert(&mut self, value: T) -> usize {
        self.0.insert(value)
    }

    /// Drops a value; says whether there was one.
    pub(super) fn remove(&mut self, index: usize) -> bool {
        let was_there = self.0.try_remove(index).is_some();
        if self.0.is_empty() && self.0.capacity() > KEPT {
            self.0 = slab::Slab::new();
        }
        was_there
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[allow(clippy::indexing_slicing, reason = "an index that is held is valid")]
impl<T> Index<usize> for Slab<T> {
    type Output = T;

    fn index(&self, index: usize) -> &T {
        &self.0[index]
    }
}

#[allow(clippy::indexing_slicing, reason = "an index that is held is valid")]
impl<T> IndexMut<usize> for Slab<T> {
    fn index_mut(&mut self, index: usize) -> &mut T {
        &mut self.0[index]
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, reason = "a test")]

    use super::*;

    #[test]
    fn places_are_used_again_and_given_back_after_a_flood() {
        let mut slab = Slab::new();
        let (a, b) = (slab.insert('a'), slab.insert('b'));
        assert_eq!((slab.remove(a), slab.remove(a)), (true, false));
        assert_eq!(slab.insert('c'), a);
        assert_eq!((slab[a], slab[b], slab.len()), ('c', 'b', 2));
        for _ in 0..2 * KEPT {
            slab.insert('x');
        }
        for index in 0..2 * KEPT + 2 {
            slab.remove(index);
        }
        assert_eq!((slab.len(), slab.0.capacity()), (0, 0));
        assert_eq!(slab.insert('y'), 0);
    }
}
