//! [`Sets`]: values by key, in bounded room.
//!
//! A key belongs to one of many small sets, by a hash with a random seed. A set has a lock of its
//! own and room for [`SET_SIZE`] entries; a search reads no other set.

use std::hash::BuildHasher as _;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use foldhash::quality::RandomState;

/// The most entries of a set.
pub(super) const SET_SIZE: usize = 8;

pub(super) struct Sets<T> {
    /// A power of two of sets, or none.
    sets: Box<[Set<T>]>,
    hasher: RandomState,
}

/// A set whose lock shares its cache line with no other. A panic cannot leave it half-changed.
#[derive(Default)]
#[repr(align(64))]
pub(super) struct Set<T>(RwLock<T>);

impl<T: Default> Sets<T> {
    /// Room for about `capacity` entries.
    pub(super) fn new(capacity: usize) -> Self {
        let sets = if capacity == 0 {
            0
        } else {
            capacity.div_ceil(SET_SIZE).next_power_of_two()
        };
        Self {
            sets: (0..sets).map(|_| Set::default()).collect(),
            hasher: RandomState::default(),
        }
    }

    pub(super) fn has_room(&self) -> bool {
        !self.sets.is_empty()
    }

    #[inline]
    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash_one(key)
    }

    /// The set of the keys with this hash; `None` if there is no room at all.
    #[inline]
    pub(super) fn read(&self, hash: u64) -> Option<RwLockReadGuard<'_, T>> {
        self.set(hash).map(Set::read)
    }

    pub(super) fn write(&self, hash: u64) -> Option<RwLockWriteGuard<'_, T>> {
        self.set(hash)
            .map(|set| set.0.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// All sets, locked one after the other.
    pub(super) fn read_each(&self) -> impl Iterator<Item = RwLockReadGuard<'_, T>> {
        self.sets.iter().map(Set::read)
    }

    fn set(&self, hash: u64) -> Option<&Set<T>> {
        // Without sets, there is none at any index.
        #[allow(
            clippy::cast_possible_truncation,
            reason = "masked to the number of sets"
        )]
        let index = hash as usize & self.sets.len().wrapping_sub(1);
        self.sets.get(index)
    }
}

impl<T> Set<T> {
    #[inline]
    fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}
