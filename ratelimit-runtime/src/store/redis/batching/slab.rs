//! What a slab does when it is used over and over: it gives back what a flood has taken.

use slab::Slab;

/// An empty slab keeps room for this many.
const KEPT: usize = 1024;

/// Drops a value, if there is one.
pub(super) fn free<T>(slab: &mut Slab<T>, index: usize) {
    drop(slab.try_remove(index));
    if slab.is_empty() && slab.capacity() > KEPT {
        *slab = Slab::new();
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
        free(&mut slab, a);
        free(&mut slab, a);
        assert_eq!(slab.insert('c'), a);
        assert_eq!((slab[a], slab[b], slab.len()), ('c', 'b', 2));
        for _ in 0..2 * KEPT {
            slab.insert('x');
        }
        for index in 0..2 * KEPT + 2 {
            free(&mut slab, index);
        }
        assert_eq!((slab.len(), slab.capacity()), (0, 0));
        assert_eq!(slab.insert('y'), 0);
    }
}
