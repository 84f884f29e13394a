//! [`Slab`]: values with small numbers as names, in one block of memory that is used over and over.

use std::ops::{Index, IndexMut};

/// An empty slab keeps room for this many; more is given back after a flood.
const KEPT: usize = 1024;

#[derive(Debug)]
pub(super) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Option<usize>,
    len: usize,
}

#[derive(Debug)]
enum Slot<T> {
    Taken(T),
    /// With the next free one.
    Free(Option<usize>),
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new(), free: None, len: 0 }
    }

    pub(crate) fn insert(&mut self, value: T) -> usize {
        self.len += 1;
        let slot = self.free.and_then(|index| Some((index, self.slots.get_mut(index)?)));
        if let Some((index, slot)) = slot
            && let Slot::Free(next) = *slot
        {
            self.free = next;
            *slot = Slot::Taken(value);
            return index;
        }
        self.slots.push(Slot::Taken(value));
        self.slots.len() - 1
    }

    /// Drops a value where it is; says whether there was one.
    pub(crate) fn remove(&mut self, index: usize) -> bool {
        let Some(slot @ Slot::Taken(_)) = self.slots.get_mut(index) else { return false };
        *slot = Slot::Free(self.free);
        self.free = Some(index);
        self.len -= 1;
        if self.len == 0 && self.slots.len() > KEPT {
            (self.slots, self.free) = (Vec::new(), None);
        }
        true
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

/// Whoever holds an index has not removed it: anything else is a mistake in this crate.
#[allow(clippy::panic, reason = "as indexing does")]
impl<T> Index<usize> for Slab<T> {
    type Output = T;

    fn index(&self, index: usize) -> &T {
        match self.slots.get(index) {
            Some(Slot::Taken(value)) => value,
            _ => panic!("nothing has the number {index}"),
        }
    }
}

#[allow(clippy::panic, reason = "as indexing does")]
impl<T> IndexMut<usize> for Slab<T> {
    fn index_mut(&mut self, index: usize) -> &mut T {
        match self.slots.get_mut(index) {
            Some(Slot::Taken(value)) => value,
            _ => panic!("nothing has the number {index}"),
        }
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
        for index in 0..slab.slots.len() {
            slab.remove(index);
        }
        assert_eq!((slab.len(), slab.slots.capacity()), (0, 0));
        assert_eq!(slab.insert('y'), 0);
    }
}
