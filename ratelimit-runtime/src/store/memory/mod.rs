//! [`MemoryStore`]: limits in this process.

use std::collections::HashMap;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::quality::RandomState;

use super::{Answer, Capabilities, Request, Store, StoreError, StoreErrorKind, Verdict};
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

    /// A store for about `keys` live keys (at least one). A key of a sliding window takes some 250 bytes and 32 for
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

    fn decide(&self, request: Request<'_>) -> Verdict {
        self.with(&request, |shard, hash, now| shard.on_new(&request, hash, now, Bucket::acquire))
    }

    fn now(&self) -> u64 {
        u64::try_from(self.clock.now().as_micros()).unwrap_or(u64::MAX / 2)
    }

    fn shard_index(&self, hash: u64) -> usize {
        // The number of shards is a power of two.
        #[allow(clippy::cast_possible_truncation, reason = "masked to the number of shards")]
        let index = hash as usize & (self.shards.len() - 1);
        index
    }

    /// Runs `work` on the key's shard, under its lock. The clock is read under the lock too, so that calls on one key
    /// see times in the order in which they are decided.
    fn with<T>(&self, request: &Request<'_>, work: impl FnOnce(&mut Shard, u64, u64) -> T) -> T {
        let hash = self.hasher.hash_one(request.key());
        #[allow(clippy::indexing_slicing, reason = "there is at least one shard, and the index is below their number")]
        let mut shard = lock(&self.shards[self.shard_index(hash)]);
        let now = self.now();
        work(&mut shard, hash >> 32, now)
    }
}

impl Shard {
    /// Works on the key's own bucket, made if there is none, or on the overflow bucket that it has to share.
    fn on_new<T>(
        &mut self,
        request: &Request<'_>,
        hash: u64,
        now: u64,
        work: impl FnOnce(&mut Bucket, &Request<'_>, u64) -> T,
    ) -> T {
        if let Some(bucket) = self.buckets.get_mut(request.key()) {
            return work(bucket, request, now);
        }
        self.newcomers += 1;
        if self.newcomers >= 64 || self.buckets.len() >= self.capacity {
            self.sweep(now);
        }
        let overflow = self.overflow_key(request, hash);
        let drained = self.overflow.get(&overflow).is_none_or(|bucket| bucket.is_void(now));
        let new = || Bucket::new(request.algorithm());
        if drained && self.buckets.len() < self.capacity {
            return work(self.buckets.entry(request.key().into()).or_insert_with(new), request, now);
        }
        // Nobody is banned for what strangers do.
        let request = request.with_block(Duration::ZERO);
        work(self.overflow.entry(overflow).or_insert_with(new), &request, now)
    }

    /// Works on the key's own bucket, made if there is none and there is room.
    fn on_own<T>(&mut self, request: &Request<'_>, now: u64, work: impl FnOnce(&mut Bucket) -> T) -> Option<T> {
        if !self.buckets.contains_key(request.key()) && self.buckets.len() >= self.capacity {
            self.newcomers += 1;
            self.sweep(now);
            if self.buckets.len() >= self.capacity {
                return None;
            }
        }
        Some(work(self.buckets.entry(request.key().into()).or_insert_with(|| Bucket::new(request.algorithm()))))
    }

    /// Works on the bucket that holds what the key was charged, if there is one.
    fn on_known<T>(&mut self, request: &Request<'_>, hash: u64, work: impl FnOnce(&mut Bucket) -> T) -> Option<T> {
        if let Some(bucket) = self.buckets.get_mut(request.key()) {
            return Some(work(bucket));
        }
        let overflow = self.overflow_key(request, hash);
        self.overflow.get_mut(&overflow).map(work)
    }

    fn overflow_key(&self, request: &Request<'_>, hash: u64) -> Box<[u8]> {
        let slot = hash % OVERFLOW_SLOTS;
        let key: Box<[u8]> = [request.rule_key(), &slot.to_le_bytes()].concat().into();
        if self.overflow.len() < MAX_OVERFLOW || self.overflow.contains_key(&key) {
            key
        } else {
            // Rules of one algorithm and the same windows, which understand each other's counts.
            let mut shared = vec![request.algorithm() as u8];
            shared.extend(request.limits().iter().flat_map(|limit| limit.window_us().to_le_bytes()));
            shared.extend(slot.to_le_bytes());
            shared.into()
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
        Answer::ready(Ok(self.decide(request)))
    }

    fn acquire_now(&self, request: Request<'_>) -> Option<Result<Verdict, StoreError>> {
        Some(Ok(self.decide(request)))
    }

    fn decides_together(&self, _: &[Request<'_>]) -> bool {
        true
    }

    fn acquire_all<'a>(&'a self, requests: &'a [Request<'a>]) -> Answer<'a, Vec<Verdict>> {
        // All locks, always in the same order; then look at all before any is charged.
        let hashes: Vec<u64> = requests.iter().map(|request| self.hasher.hash_one(request.key())).collect();
        let mut indices: Vec<usize> = hashes.iter().map(|hash| self.shard_index(*hash)).collect();
        indices.sort_unstable();
        indices.dedup();
        let mut shards: Vec<(usize, MutexGuard<'_, Shard>)> =
            indices.into_iter().filter_map(|index| Some((index, lock(self.shards.get(index)?)))).collect();
        let now = self.now();
        let mut ask = |index: usize, decide: fn(&mut Bucket, &Request<'_>, u64) -> Verdict| {
            let (request, hash) = (requests.get(index)?, *hashes.get(index)?);
            let (_, shard) = shards.iter_mut().find(|(at, _)| *at == self.shard_index(hash))?;
            Some(shard.on_new(request, hash >> 32, now, decide))
        };
        let mut verdicts: Vec<Verdict> = (0..requests.len()).filter_map(|index| ask(index, Bucket::peek)).collect();
        let admitted = verdicts.iter().all(|verdict| verdict.allowed);
        let mut charged = Vec::new();
        for (index, verdict) in verdicts.iter_mut().enumerate() {
            // Where one refuses, those that do may set their bans, and no other is touched.
            if admitted || !verdict.allowed {
                *verdict = ask(index, Bucket::acquire).unwrap_or(*verdict);
            }
            if admitted && !verdict.allowed {
                // A key stands here twice, and there was room for one of them.
                break;
            }
            charged.push((index, verdict.ticket));
        }
        if admitted && charged.len() < requests.len() {
            for (index, ticket) in charged.into_iter().rev() {
                let (Some(request), Some(&hash)) = (requests.get(index), hashes.get(index)) else { continue };
                if let Some((_, shard)) = shards.iter_mut().find(|(at, _)| *at == self.shard_index(hash)) {
                    shard.on_known(request, hash >> 32, |bucket| bucket.refund(request, ticket, now));
                }
            }
        }
        Answer::ready(Ok(verdicts))
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        let look = |shard: &mut Shard, hash, now| {
            let known = shard.on_known(&request, hash, |bucket| bucket.peek(&request, now));
            known.unwrap_or_else(|| Bucket::new(request.algorithm()).peek(&request, now))
        };
        Answer::ready(Ok(self.with(&request, look)))
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        // An overflow bucket stays: it holds what others have used.
        let forget =
            |shard: &mut Shard, _, now| shard.buckets.remove(request.key()).is_some_and(|bucket| !bucket.is_void(now));
        Answer::ready(Ok(self.with(&request, forget)))
    }

    fn refund<'a>(&'a self, request: Request<'a>, ticket: u64) -> Answer<'a, bool> {
        let refund = |shard: &mut Shard, hash, now| {
            shard.on_known(&request, hash, |bucket| !bucket.is_void(now) && bucket.refund(&request, ticket, now))
        };
        Answer::ready(Ok(self.with(&request, refund).unwrap_or(false)))
    }

    fn commit<'a>(&'a self, request: Request<'a>, ticket: u64) -> Answer<'a, bool> {
        let commit = |shard: &mut Shard, hash, now| {
            shard.on_known(&request, hash, |bucket| !bucket.is_void(now) && bucket.commit(&request, ticket, now))
        };
        Answer::ready(Ok(self.with(&request, commit).unwrap_or(false)))
    }

    fn release<'a>(&'a self, request: Request<'a>, ticket: u64) -> Answer<'a, bool> {
        self.refund(request.reserving(), ticket)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::all()
    }

    fn block<'a>(&'a self, request: Request<'a>, duration: Duration) -> Answer<'a, ()> {
        let duration = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let ban =
            |shard: &mut Shard, _, now| shard.on_own(&request, now, |bucket| bucket.block(&request, duration, now));
        let full = || StoreError::new(StoreErrorKind::Full, "the memory store has no room for another ban");
        Answer::ready(self.with(&request, ban).ok_or_else(full))
    }

    fn unblock<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        let unblock = |shard: &mut Shard, hash, now| {
            shard.on_known(&request, hash, |bucket| !bucket.is_void(now) && bucket.unblock(now))
        };
        Answer::ready(Ok(self.with(&request, unblock).unwrap_or(false)))
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
