//! [`MemoryStore`]: limits in this process.

use std::collections::HashMap;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::quality::RandomState;

use super::{Answer, Request, Store, Verdict};
use crate::algorithm::Bucket;
use crate::clock::{Clock, TokioClock};

/// Keeps limits in memory: exact, bounded, without a background task.
///
/// Expired keys are let go of while new ones come in. When as many keys are live as the capacity allows, newcomers
/// share overflow buckets, per rule, until there is room *and* their overflow bucket has run empty: whoever floods the
/// store with keys neither locks others out nor earns a fresh quota.
pub struct MemoryStore {
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
    clock: Box<dyn Clock>,
}

#[derive(Default)]
struct Shard {
    buckets: HashMap<Box<[u8]>, Bucket, RandomState>,
    overflow: HashMap<Box<[u8]>, Bucket, RandomState>,
    capacity: usize,
    /// Newcomers since the last sweep: a sweep has to be earned, so that it costs each of them O(1).
    newcomers: usize,
}

const DEFAULT_CAPACITY: usize = 100_000;
const MAX_SHARDS: usize = 64;
/// Overflow buckets per rule and shard.
const OVERFLOW_SLOTS: u64 = 16;
/// Overflow buckets per shard; further rules share one set.
const MAX_OVERFLOW: usize = 1024;

impl MemoryStore {
    /// A store for 100,000 live keys, on tokio's clock.
    #[must_use]
    pub fn new() -> Self {
        Self::with_capacity(DEFAULT_CAPACITY)
    }

    /// A store for about `keys` live keys (at least one). A key of a sliding window takes some 150 bytes and 16 for
    /// each admission in the window.
    #[must_use]
    pub fn with_capacity(keys: usize) -> Self {
        let shards = (keys / 64).clamp(1, MAX_SHARDS).next_power_of_two().min(MAX_SHARDS);
        let capacity = keys.div_ceil(shards).max(1);
        let shard = || Mutex::new(Shard { capacity, ..Shard::default() });
        Self {
            shards: (0..shards).map(|_| shard()).collect(),
            hasher: RandomState::default(),
            clock: Box::new(TokioClock::new()),
        }
    }

    /// The same store on another clock.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Clock) -> Self {
        self.clock = Box::new(clock);
        self
    }

    /// How many keys are held now, those included that have expired and not been let go of yet.
    #[must_use]
    pub fn len(&self) -> usize {
        let held = |shard: &Mutex<Shard>| {
            let shard = lock(shard);
            shard.buckets.len() + shard.overflow.len()
        };
        self.shards.iter().map(held).sum()
    }

    /// Whether no key is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn now(&self) -> u64 {
        u64::try_from(self.clock.now().as_micros()).unwrap_or(u64::MAX / 2)
    }

    fn shard(&self, key: &[u8]) -> (MutexGuard<'_, Shard>, u64) {
        let hash = self.hasher.hash_one(key);
        // `shards` is a power of two and never empty.
        #[allow(clippy::cast_possible_truncation, clippy::indexing_slicing, reason = "masked to the number of shards")]
        let shard = &self.shards[hash as usize & (self.shards.len() - 1)];
        (lock(shard), hash >> 32)
    }
}

impl Shard {
    /// Charges the key's own log, or the overflow bucket it has to share.
    fn acquire(&mut self, request: &Request<'_>, hash: u64, now: u64) -> Verdict {
        let charge = |bucket: &mut Bucket| bucket.acquire(request, now);
        if let Some(bucket) = self.buckets.get_mut(request.key()) {
            return charge(bucket);
        }
        self.newcomers += 1;
        if self.newcomers >= 64 || self.buckets.len() >= self.capacity {
            self.sweep(now);
        }
        let overflow = self.overflow_key(request.rule_key(), hash);
        let drained = self.overflow.get(&overflow).is_none_or(|bucket| bucket.is_void(now));
        if drained && self.buckets.len() < self.capacity {
            charge(self.buckets.entry(request.key().into()).or_insert_with(|| Bucket::new(request.algorithm())))
        } else {
            charge(self.overflow.entry(overflow).or_insert_with(|| Bucket::new(request.algorithm())))
        }
    }

    fn peek(&mut self, request: &Request<'_>, hash: u64, now: u64) -> Verdict {
        let look = |bucket: &mut Bucket| bucket.peek(request, now);
        if let Some(bucket) = self.buckets.get_mut(request.key()) {
            return look(bucket);
        }
        let overflow = self.overflow_key(request.rule_key(), hash);
        look(self.overflow.get_mut(&overflow).unwrap_or(&mut Bucket::new(request.algorithm())))
    }

    fn overflow_key(&self, rule: &[u8], hash: u64) -> Box<[u8]> {
        let slot = hash % OVERFLOW_SLOTS;
        let key: Box<[u8]> = [rule, &slot.to_le_bytes()].concat().into();
        if self.overflow.len() < MAX_OVERFLOW || self.overflow.contains_key(&key) {
            key
        } else {
            slot.to_le_bytes().into()
        }
    }

    fn sweep(&mut self, now: u64) {
        if self.newcomers * 4 < self.buckets.len() {
            return;
        }
        self.newcomers = 0;
        self.buckets.retain(|_, bucket| !bucket.is_void(now));
        self.overflow.retain(|_, bucket| !bucket.is_void(now));
        if self.buckets.capacity() > 256 && self.buckets.len() < self.buckets.capacity() / 4 {
            self.buckets.shrink_to(self.buckets.len() * 2);
        }
    }
}

impl Store for MemoryStore {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        let (mut shard, hash) = self.shard(request.key());
        // Read under the lock, so that calls on one key see times in the order in which they are decided.
        let now = self.now();
        Answer::ready(Ok(shard.acquire(&request, hash, now)))
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        let (mut shard, hash) = self.shard(request.key());
        let now = self.now();
        Answer::ready(Ok(shard.peek(&request, hash, now)))
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        let (mut shard, _) = self.shard(request.key());
        let now = self.now();
        // An overflow bucket stays: it holds what others have used.
        Answer::ready(Ok(shard.buckets.remove(request.key()).is_some_and(|bucket| !bucket.is_void(now))))
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("keys", &self.len()).finish_non_exhaustive()
    }
}

/// Nothing under the lock can leave a log half-changed, so a panic elsewhere does not poison it.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
