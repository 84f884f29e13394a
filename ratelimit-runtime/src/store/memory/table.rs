//! [`KeyTable`]: the entries of a shard in one vector, and the position of each. A look-up by hash
//! reads small numbers only, and eviction draws entries by position.

use hashbrown::HashTable;

use super::bucket::Bucket;
use super::entry::KeyEntry;
use super::rules::Rules;
use crate::store::Request;

/// The entries of a shard.
#[derive(Default)]
pub(super) struct KeyTable {
    entries: Vec<KeyEntry>,
    /// The position of each entry, by the hash of its key.
    positions: HashTable<u32>,
    rules: Rules,
}

/// The part of a hash that an entry keeps.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "it is a part")]
fn kept(hash: u64) -> u32 {
    hash as u32
}

/// The hash by which the table finds positions, of which it reads both ends.
#[inline]
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

#[inline]
fn entry(entries: &[KeyEntry], position: usize) -> Option<&KeyEntry> {
    debug_assert!(position < entries.len(), "a position is that of an entry");
    entries.get(position)
}

#[inline]
fn entry_mut(entries: &mut [KeyEntry], position: usize) -> Option<&mut KeyEntry> {
    debug_assert!(position < entries.len(), "a position is that of an entry");
    entries.get_mut(position)
}

#[inline]
fn hash_of(entries: &[KeyEntry], position: u32) -> u64 {
    entry(entries, position as usize).map_or(0, |entry| spread(entry.hash))
}

impl KeyTable {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The position of the key, if it is known.
    #[inline]
    pub(super) fn find(&self, key: &[u8], hash: u64) -> Option<usize> {
        let position = self.find_hash(hash)?;
        if self.is_of(position, key) {
            Some(position)
        } else {
            self.find_other(key, hash)
        }
    }

    /// The position of some key with this hash. Keys are compared after the search, because two
    /// keys with one hash are rare.
    #[inline]
    fn find_hash(&self, hash: u64) -> Option<usize> {
        let hash = kept(hash);
        let has_hash =
            |at: &u32| entry(&self.entries, *at as usize).is_some_and(|entry| entry.hash == hash);
        self.positions
            .find(spread(hash), has_hash)
            .map(|at| *at as usize)
    }

    /// The position of the key, if another key has its hash.
    #[cold]
    fn find_other(&self, key: &[u8], hash: u64) -> Option<usize> {
        let is_key = |at: &u32| self.is_of(*at as usize, key);
        self.positions
            .find(spread(kept(hash)), is_key)
            .map(|at| *at as usize)
    }

    #[inline]
    fn is_of(&self, position: usize, key: &[u8]) -> bool {
        entry(&self.entries, position).is_some_and(|entry| entry.is_of(key))
    }

    #[inline]
    pub(super) fn bucket(&mut self, position: usize) -> Option<&mut Bucket> {
        entry_mut(&mut self.entries, position).map(|entry| &mut entry.bucket)
    }

    /// The bucket of a known key, for a call with the request's limits.
    #[allow(clippy::inline_always, reason = "every decision begins with it")]
    #[inline(always)]
    pub(super) fn bucket_for(&mut self, request: &Request<'_>, hash: u64) -> Option<&mut Bucket> {
        let position = self.find_hash(hash)?;
        if self.is_of(position, request.key()) {
            self.bucket_at(position, request)
        } else {
            self.bucket_of_other(request, hash)
        }
    }

    #[cold]
    fn bucket_of_other(&mut self, request: &Request<'_>, hash: u64) -> Option<&mut Bucket> {
        self.bucket_at(self.find_other(request.key(), hash)?, request)
    }

    #[allow(clippy::inline_always, reason = "every decision ends with it")]
    #[inline(always)]
    fn bucket_at(&mut self, position: usize, request: &Request<'_>) -> Option<&mut Bucket> {
        let entry = entry_mut(&mut self.entries, position)?;
        match (&*entry.rule.limits, request.limits()) {
            // Without a loop, as most rules have it.
            ([known], [limit]) if known == limit => {}
            (known, limits) if known == limits => {}
            (_, limits) => self.rules.change(&mut entry.rule, limits),
        }
        Some(&mut entry.bucket)
    }

    /// Adds a key that is not known.
    pub(super) fn insert(&mut self, request: &Request<'_>, hash: u64, bucket: Bucket) {
        let Ok(position) = u32::try_from(self.entries.len()) else {
            debug_assert!(false, "a shard has room for fewer");
            return;
        };
        let rule = self.rules.add_key(request.rule_key(), request.limits());
        self.entries
            .push(KeyEntry::new(request, rule, kept(hash), bucket));
        let entries = &self.entries;
        self.positions
            .insert_unique(spread(kept(hash)), position, |at| hash_of(entries, *at));
    }

    /// Removes an entry; the last entry takes its position.
    pub(super) fn remove(&mut self, position: usize) -> Option<Bucket> {
        let hash = spread(entry(&self.entries, position)?.hash);
        let last = self.entries.len() - 1;
        let known = self
            .positions
            .find_entry(hash, |at| *at as usize == position);
        debug_assert!(known.is_ok(), "an entry is found by its hash");
        if let Ok(known) = known {
            let (at, _) = known.remove();
            let hash = spread(entry(&self.entries, last)?.hash);
            let moved = self.positions.find_mut(hash, |at| *at as usize == last);
            debug_assert!(
                moved.is_some() != (position == last),
                "an entry is found by its hash, once"
            );
            if let Some(moved) = moved {
                *moved = at;
            }
        }
        let entry = self.entries.swap_remove(position);
        self.rules.remove_key(&entry.rule);
        Some(entry.bucket)
    }

    /// Removes all void entries.
    pub(super) fn remove_void(&mut self, now: u64) {
        // From the last on: the entry that takes the place of a removed one has been looked at.
        for position in (0..self.entries.len()).rev() {
            if entry(&self.entries, position).is_some_and(|entry| entry.bucket.is_void(now)) {
                self.remove(position);
            }
        }
    }

    /// The keys that begin with `beginning` and are not void.
    pub(super) fn keys(&self, beginning: &[u8], now: u64) -> Vec<Vec<u8>> {
        let counts = self
            .entries
            .iter()
            .filter(|entry| !entry.bucket.is_void(now));
        counts
            .map(KeyEntry::key)
            .filter(|key| key.starts_with(beginning))
            .collect()
    }

    pub(super) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The number of keys with the head of this one.
    pub(super) fn of_family(&self, position: usize) -> usize {
        entry(&self.entries, position).map_or(0, |entry| self.rules.of_family(&entry.rule))
    }

    /// See [`Bucket::loss`].
    pub(super) fn loss(&mut self, position: usize, now: u64) -> Option<u64> {
        let entry = entry_mut(&mut self.entries, position)?;
        entry.bucket.loss(&entry.rule.limits, now)
    }
}
