//! [`MemoryStore`]: keeps limits in this process, for services of one process, tests, and outages
//! of a shared store.
//!
//! Keys are spread by hash over shards, each behind a lock. The algorithms are pure functions,
//! applied under it.

use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::num::NonZero;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use foldhash::quality::RandomState;

use self::permits::ShardPermits;
use self::shard::Shard;
use self::stack::StackPart;
use super::{
    Answer, BuiltInStore, Capabilities, Page, PermitRequest, PermitVerdict, Request, Sealed,
    Settled, Store, StoreError, StoreErrorKind, Verdict, page,
};
use crate::clock::Clock;
use crate::clock::of_tokio::TokioClock;
use crate::rule::{BlockDuration, Limit};

pub(in crate::store) mod bucket;
mod entry;
mod eviction;
mod permits;
mod rules;
mod shard;
mod stack;
mod table;

/// Keeps limits in memory: exact, bounded, without a background task.
///
/// Expired keys are removed while new keys arrive. Once as many keys are live as the capacity
/// allows, each new key evicts one that has used at most half of each limit, is not blocked and
/// holds no reservation by `count`. If no such key is found, new keys of a rule share overflow
/// buckets until there is room. [The guide](crate::guide::algorithms#what-a-key-takes) says which
/// key is evicted, and how much eviction adds to a limit. A block is never lifted.
pub struct MemoryStore {
    shards: Box<[Mutex<Shard>]>,
    /// The permits of calls in flight, in shards of their own.
    permits: Box<[Mutex<ShardPermits>]>,
    hasher: RandomState,
    clock: Box<dyn Clock>,
}

const DEFAULT_CAPACITY: usize = 100_000;
/// The shards of each processor, and in all: more of them contend less, but fill more of the
/// caches.
const SHARDS_PER_PROCESSOR: usize = 4;
const MAX_SHARDS: usize = 64;
/// The last second of the store's clock, after 146,000 years, so that no sum of times overflows.
const LATEST_SECS: u64 = (1 << 62) / 1_000_000;

impl MemoryStore {
    /// A store for 100,000 live keys, on tokio's clock.
    #[must_use]
    pub fn new() -> Self {
        Self::with_capacity(DEFAULT_CAPACITY)
    }

    /// A store for about `keys` live keys, at least 1. A key takes some 150 bytes with its place in
    /// the table; a sliding window with more than three units of cost in it takes 100 more, and 8
    /// to 16 for each unit.
    #[must_use]
    pub fn with_capacity(keys: usize) -> Self {
        // A power of two.
        let shards = (keys / 64).max(1).next_power_of_two().min(most_shards());
        let capacity = keys.div_ceil(shards).max(1);
        let shard = || Mutex::new(Shard::new(capacity));
        Self {
            shards: (0..shards).map(|_| shard()).collect(),
            permits: (0..shards).map(|_| Mutex::default()).collect(),
            hasher: RandomState::default(),
            clock: Box::new(TokioClock::new()),
        }
    }

    /// Takes the time from `clock` instead of tokio's clock.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Clock) -> Self {
        self.clock = Box::new(clock);
        self
    }

    /// The number of stored keys, including expired keys that have not been removed yet.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).len()).sum()
    }

    /// `true` if no key is stored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The time in microseconds, at least 1, also if the clock is set to before 1970: 0 is the
    /// ticket of a call that was not charged.
    #[inline]
    fn now(&self) -> u64 {
        let now = self.clock.now();
        (now.as_secs().min(LATEST_SECS) * 1_000_000 + u64::from(now.subsec_micros())).max(1)
    }

    #[inline]
    fn hash(&self, key: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(key);
        hasher.finish()
    }

    /// The index of the key's shard, by other bits of the hash than those that find the key in it.
    fn shard_index(&self, hash: u64) -> usize {
        // The number of shards is a power of two.
        #[allow(
            clippy::cast_possible_truncation,
            reason = "masked to the number of shards"
        )]
        let index = (hash >> 48) as usize & (self.shards.len() - 1);
        index
    }

    #[inline]
    fn lock_shard(&self, index: usize) -> MutexGuard<'_, Shard> {
        #[allow(
            clippy::indexing_slicing,
            reason = "there is at least one shard, and the index is below their number"
        )]
        lock(&self.shards[index])
    }

    /// Decides and charges. Only here all of that is inlined: a call to any part of it would cost
    /// more than the rest.
    #[inline(never)]
    fn decide(&self, request: &Request<'_>) -> Verdict {
        self.with(request, |shard, hash, now| {
            shard.acquire(request, hash, now)
        })
    }

    /// Decides several requests together, under the locks of all their shards.
    pub(crate) fn decide_all(&self, requests: &[Request<'_>]) -> Vec<Verdict> {
        if let [request] = requests {
            return vec![self.decide(request)];
        }
        let parts = requests.iter().map(|request| {
            let hash = self.hash(request.key());
            StackPart {
                request: *request,
                ahead: 0,
                hash,
                shard: self.shard_index(hash),
            }
        });
        let mut parts: Vec<StackPart<'_>> = parts.collect();
        StackPart::add_up(&mut parts);
        // All locks, always in the same order.
        let mut indices: Vec<usize> = parts.iter().map(|part| part.shard).collect();
        indices.sort_unstable();
        indices.dedup();
        for part in &mut parts {
            part.shard = indices.partition_point(|index| *index < part.shard);
        }
        let locked = indices.into_iter().map(|index| self.lock_shard(index));
        let mut shards: Vec<MutexGuard<'_, Shard>> = locked.collect();
        stack::decide(&mut shards, &parts, self.now())
    }

    /// Decides without charging.
    pub(crate) fn peek_now(&self, request: &Request<'_>) -> Verdict {
        self.with(request, |shard, hash, now| shard.peek(request, hash, now))
    }

    /// Runs `work` on the permits of the key's shard, under their lock. That lock is taken before
    /// the locks of shards, and never while one of them is held.
    fn with_permits<T>(&self, key: &[u8], work: impl FnOnce(&mut ShardPermits) -> T) -> T {
        #[allow(clippy::indexing_slicing, reason = "there are as many as shards")]
        let permits = &self.permits[self.shard_index(self.hash(key))];
        work(&mut lock(permits))
    }

    /// Runs `work` on the key's shard, under its lock, with the hash of the key and the time. The
    /// clock is read under the lock, so that calls on one key see times in the order in which they
    /// are decided.
    #[allow(clippy::inline_always, reason = "every decision begins with it")]
    #[inline(always)]
    fn with<T>(&self, request: &Request<'_>, work: impl FnOnce(&mut Shard, u64, u64) -> T) -> T {
        let hash = self.hash(request.key());
        let mut shard = self.lock_shard(self.shard_index(hash));
        work(&mut shard, hash, self.now())
    }
}

/// The number of shards of a large store.
fn most_shards() -> usize {
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    (processors * SHARDS_PER_PROCESSOR)
        .next_power_of_two()
        .min(MAX_SHARDS)
}

impl Store for MemoryStore {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        Answer::ready(Ok(self.decide(&request)))
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        Answer::ready(Ok(self.peek_now(&request)))
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        Answer::ready(Ok(self.with(&request, |shard, hash, now| {
            shard.reset(&request, hash, now)
        })))
    }

    fn refund<'a>(&'a self, request: Request<'a>, ticket: u64) -> Answer<'a, bool> {
        Answer::ready(Ok(self.with(&request, |shard, hash, now| {
            shard.refund(&request, hash, ticket, now)
        })))
    }

    fn settle<'a>(
        &'a self,
        request: Request<'a>,
        ticket: u64,
        actual_cost: u64,
    ) -> Answer<'a, Settled> {
        let actual = actual_cost.min(Limit::MAX_COUNT);
        Answer::ready(Ok(self.with(&request, |shard, hash, now| {
            shard.settle(&request, hash, ticket, actual, now)
        })))
    }

    /// The keys of a shard, whose index is the cursor. Keys in an overflow bucket are not listed.
    fn keys<'a>(&'a self, request: Request<'a>, from: Option<Vec<u8>>) -> Answer<'a, Page> {
        let index = from.map_or(Some(0_usize), |cursor| {
            std::str::from_utf8(&cursor).ok()?.parse().ok()
        });
        let mut both = self.shards.iter().zip(&self.permits);
        let Some((index, (shard, permits))) = index.and_then(|at| Some((at, both.nth(at)?))) else {
            return Answer::ready(Err(page::foreign()));
        };
        let mut keys = lock(shard).keys(request.key(), self.now());
        keys.extend(lock(permits).keys(request.key()));
        let next = (index + 1 < self.shards.len()).then(|| (index + 1).to_string().into());
        Answer::ready(Ok(Page::new(keys, next)))
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::all()
    }

    fn block<'a>(&'a self, request: Request<'a>, duration: Duration) -> Answer<'a, ()> {
        let duration = BlockDuration::fixed(duration).first_us();
        let blocked = self.with(&request, |shard, hash, now| {
            shard.block(&request, hash, duration, now)
        });
        let full = || {
            StoreError::new(
                StoreErrorKind::Full,
                "the memory store has no room for another block",
            )
        };
        Answer::ready(blocked.then_some(()).ok_or_else(full))
    }

    fn unblock<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        Answer::ready(Ok(self.with(&request, |shard, hash, now| {
            shard.unblock(&request, hash, now)
        })))
    }

    fn built_in(&self, _: Sealed) -> Option<&dyn BuiltInStore> {
        Some(self)
    }
}

impl BuiltInStore for MemoryStore {
    fn decide_at_once(&self, request: &Request<'_>) -> Option<Verdict> {
        Some(self.decide(request))
    }

    fn decides_together(&self, _: Option<&PermitRequest>, _: &[Request<'_>]) -> bool {
        true
    }

    fn offend<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        Answer::ready(Ok(self.with(&request, |shard, hash, now| {
            shard.offend(&request, hash, now)
        })))
    }

    fn acquire_all<'a>(
        &'a self,
        permit: Option<PermitRequest>,
        requests: &'a [Request<'a>],
    ) -> Answer<'a, PermitVerdict> {
        let Some(permit) = permit else {
            return Answer::ready(Ok(PermitVerdict::of_limits(self.decide_all(requests))));
        };
        let verdict = self.with_permits(&permit.key, |permits| {
            permits.acquire(&permit, |is_free| {
                if is_free {
                    self.decide_all(requests)
                } else {
                    requests
                        .iter()
                        .map(|request| self.peek_now(request))
                        .collect()
                }
            })
        });
        Answer::ready(Ok(verdict))
    }

    fn release_permit(&self, permit: &PermitRequest) {
        self.with_permits(&permit.key, |permits| permits.release(permit));
    }

    fn in_flight(&self, permit: PermitRequest) -> Answer<'_, u64> {
        Answer::ready(Ok(
            self.with_permits(&permit.key, |permits| permits.in_flight(&permit.key))
        ))
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("keys", &self.len())
            .finish_non_exhaustive()
    }
}

/// Locks `shard`, also if it is poisoned: no panic under the lock can leave a log half-changed.
#[inline]
fn lock<T>(shard: &Mutex<T>) -> MutexGuard<'_, T> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
