//! [`Shard`]: a part of the keys, under one lock.

use std::collections::HashMap;
use std::time::Duration;

use foldhash::quality::RandomState;
use hashbrown::HashTable;

use super::bucket::Bucket;
use crate::store::{Request, Verdict};

/// Overflow buckets per rule and shard.
const OVERFLOW_SLOTS: u64 = 16;
/// Overflow buckets per shard; further rules share one set.
const MAX_OVERFLOW: usize = 1024;

/// A part of the keys, on cache lines of its own. When it is full of live keys, newcomers are charged to *overflow buckets*, which they
/// share with strangers.
///
/// Once there is room again, a newcomer gets a bucket of its own that begins as a copy of its overflow bucket: it may be
/// one of those who used that up. The copy is made when the newcomer is first admitted, and the overflow bucket stays as
/// it is, so both are whole a window after the flood.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Shard {
    buckets: HashTable<Keyed>,
    overflow: HashMap<Box<[u8]>, Bucket, RandomState>,
    capacity: usize,
    /// Newcomers since the last sweep: a sweep has to be earned, so that it costs each of them O(1).
    newcomers: usize,
}

/// A key with its bucket.
struct Keyed {
    /// Of the key: it is worked out once per call, and finds the shard, too.
    hash: u64,
    key: Box<[u8]>,
    bucket: Bucket,
}

impl Shard {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.buckets.len() + self.overflow.len()
    }

    #[inline]
    pub(super) fn acquire(&mut self, request: &Request<'_>, hash: u64, now: u64) -> Verdict {
        match self.find(request, hash) {
            Some(bucket) => bucket.acquire(request, now),
            None => self.acquire_as_newcomer(request, hash, now),
        }
    }

    #[cold]
    fn acquire_as_newcomer(&mut self, request: &Request<'_>, hash: u64, now: u64) -> Verdict {
        if !self.has_room(now) {
            // Nobody is blocked for what strangers use.
            let request = request.with_block(Duration::ZERO);
            let shared = self.overflow_key(&request, hash, now);
            return self
                .overflow
                .entry(shared)
                .or_insert_with(|| Bucket::new(request.algorithm()))
                .acquire(&request, now);
        }
        let mut bucket = self.newcomer(request, hash, now);
        let verdict = bucket.acquire(request, now);
        // A newcomer that is refused is answered alike the next time, and takes no room.
        if !bucket.is_void(now) && (verdict.ticket != 0 || verdict.blocked) {
            self.insert(request, hash, bucket);
        }
        verdict
    }

    /// Blocks the key; `false` if there is no room for it.
    pub(super) fn block(&mut self, request: &Request<'_>, hash: u64, duration: u64, now: u64) -> bool {
        if let Some(bucket) = self.find(request, hash) {
            bucket.block(request, duration, now);
            return true;
        }
        if !self.has_room(now) {
            return false;
        }
        let mut bucket = self.newcomer(request, hash, now);
        bucket.block(request, duration, now);
        self.insert(request, hash, bucket);
        true
    }

    pub(super) fn peek(&mut self, request: &Request<'_>, hash: u64, now: u64) -> Verdict {
        let known = self.on_known(request, hash, now, |bucket| bucket.peek(request, now));
        known.unwrap_or_else(|| Bucket::new(request.algorithm()).peek(request, now))
    }

    /// Refunds a charge or releases a reservation; says whether it was there.
    pub(super) fn give_back(&mut self, request: &Request<'_>, hash: u64, ticket: u64, now: u64) -> bool {
        self.on_known(request, hash, now, |bucket| {
            if request.is_reservation() {
                bucket.release(request, ticket, now)
            } else {
                bucket.refund(request, ticket, now)
            }
        })
        .unwrap_or(false)
    }

    pub(super) fn commit(&mut self, request: &Request<'_>, hash: u64, ticket: u64, now: u64) -> bool {
        self.on_known(request, hash, now, |bucket| bucket.commit(request, ticket, now)).unwrap_or(false)
    }

    pub(super) fn unblock(&mut self, request: &Request<'_>, hash: u64, now: u64) -> bool {
        self.find(request, hash).is_some_and(|bucket| bucket.unblock(request, now))
    }

    /// Works on the bucket that the key was charged in, if there is one.
    fn on_known<T>(
        &mut self,
        request: &Request<'_>,
        hash: u64,
        now: u64,
        work: impl FnOnce(&mut Bucket) -> T,
    ) -> Option<T> {
        // Found twice, because a borrow that is returned on one path would last for the other.
        if self.find(request, hash).is_some() {
            return self.find(request, hash).map(work);
        }
        if self.overflow.is_empty() {
            return None;
        }
        let shared = self.overflow_key(request, hash, now);
        self.overflow.get_mut(&shared).map(work)
    }

    /// Forgets the key; says whether there was anything. An overflow bucket stays, because others have used it too.
    pub(super) fn reset(&mut self, request: &Request<'_>, hash: u64, now: u64) -> bool {
        let found = self.buckets.find_entry(hash, |keyed| *keyed.key == *request.key());
        found.is_ok_and(|entry| !entry.remove().0.bucket.is_void(now))
    }

    /// All that begin like this and of which something counts.
    pub(super) fn keys(&self, beginning: &[u8], now: u64) -> Vec<Vec<u8>> {
        let counts = |keyed: &&Keyed| keyed.key.starts_with(beginning) && !keyed.bucket.is_void(now);
        self.buckets.iter().filter(counts).map(|keyed| keyed.key.to_vec()).collect()
    }

    /// The key's own bucket.
    #[inline]
    fn find(&mut self, request: &Request<'_>, hash: u64) -> Option<&mut Bucket> {
        let keyed = self.buckets.find_mut(hash, |keyed| *keyed.key == *request.key())?;
        Some(&mut keyed.bucket)
    }

    fn insert(&mut self, request: &Request<'_>, hash: u64, bucket: Bucket) {
        let keyed = Keyed { hash, key: request.key().into(), bucket };
        self.buckets.insert_unique(hash, keyed, |keyed| keyed.hash);
    }

    /// The bucket that a key begins with.
    fn newcomer(&mut self, request: &Request<'_>, hash: u64, now: u64) -> Bucket {
        let copy = |bucket: &mut Bucket| (!bucket.is_void(now)).then(|| bucket.copy(request, now));
        self.on_known(request, hash, now, copy).flatten().unwrap_or_else(|| Bucket::new(request.algorithm()))
    }

    /// Whether there is room for another key.
    fn has_room(&mut self, now: u64) -> bool {
        self.newcomers += 1;
        if self.buckets.len() >= self.capacity || self.newcomers >= 64 {
            self.sweep(now);
        }
        self.buckets.len() < self.capacity
    }

    fn overflow_key(&self, request: &Request<'_>, hash: u64, now: u64) -> Box<[u8]> {
        let slot = (hash >> 32) % OVERFLOW_SLOTS;
        let own: Box<[u8]> = [request.rule_key(), &slot.to_le_bytes()].concat().into();
        if self.overflow.contains_key(&own) {
            return own;
        }
        // Rules of one algorithm and the same windows, which understand each other's counts. Whoever was charged there
        // is found there as long as that counts.
        let mut shared = vec![request.algorithm() as u8];
        shared.extend(request.limits().iter().flat_map(|limit| limit.window_us().to_le_bytes()));
        shared.extend(slot.to_le_bytes());
        let in_use = self.overflow.get(shared.as_slice()).is_some_and(|bucket| !bucket.is_void(now));
        if self.overflow.len() < MAX_OVERFLOW && !in_use { own } else { shared.into() }
    }

    fn sweep(&mut self, now: u64) {
        if self.newcomers * 4 < self.buckets.len() {
            return;
        }
        self.newcomers = 0;
        self.buckets.retain(|keyed| !keyed.bucket.is_void(now));
        self.overflow.retain(|_, bucket| !bucket.is_void(now));
        if self.buckets.capacity() > 256 && self.buckets.len() < self.buckets.capacity() / 4 {
            self.buckets.shrink_to(self.buckets.len() * 2, |keyed| keyed.hash);
        }
    }
}
