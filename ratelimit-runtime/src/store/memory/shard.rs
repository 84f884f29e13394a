//! [`Shard`]: a part of the keys, under one lock.

use std::collections::HashMap;

use foldhash::quality::RandomState;

use super::bucket::Bucket;
use super::eviction::Eviction;
use super::table::KeyTable;
use crate::rule::BlockDuration;
use crate::store::{Request, Settled, Verdict};

/// The overflow buckets of a rule in a shard.
const OVERFLOW_BUCKETS: u64 = 16;
/// From this many overflow buckets on, rules with one algorithm and equal windows share them.
const MAX_OVERFLOW: usize = 1024;
/// The least time between two sweeps of a shard that has room, in microseconds. Keys that are used
/// again and again, but expire within less, keep their entries.
const SWEEP_PAUSE: u64 = 1_000_000;
/// Marks the ticket of a charge to an overflow bucket, so that its end changes no other bucket:
/// meanwhile the key may have got or lost a bucket of its own.
const SHARED: u64 = 1 << 63;

/// A part of the keys, on cache lines of its own. When it is full, a key with little to lose [makes
/// room](Eviction) for each new one. If no key may be dropped, new keys are charged to *overflow
/// buckets*, which they share. Once there is room again, a new key gets a bucket of its own.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Shard {
    table: KeyTable,
    eviction: Eviction,
    overflow: HashMap<Box<[u8]>, Bucket, RandomState>,
    capacity: usize,
    /// The number of new keys since the last sweep. A sweep waits for enough of them, so that it
    /// costs O(1) for each.
    newcomers: usize,
    swept_at: u64,
}

impl Shard {
    pub(super) fn new(capacity: usize) -> Self {
        // Positions have 32 bits.
        Self {
            capacity: capacity.min(u32::MAX as usize),
            ..Self::default()
        }
    }

    pub(super) fn len(&self) -> usize {
        self.table.len() + self.overflow.len()
    }

    #[allow(clippy::inline_always, reason = "it is what a store does")]
    #[inline(always)]
    pub(super) fn acquire(&mut self, request: &Request<'_>, hash: u64, now: u64) -> Verdict {
        match self.table.bucket_for(request, hash) {
            Some(bucket) => bucket.acquire(request, now),
            None => self.acquire_as_newcomer(request, hash, now),
        }
    }

    #[cold]
    fn acquire_as_newcomer(&mut self, request: &Request<'_>, hash: u64, now: u64) -> Verdict {
        // A call that costs nothing takes no room.
        if request.cost() == 0 {
            return self.peek(request, hash, now);
        }
        // A new key has room, and is not blocked because of strangers' charges.
        let block = BlockDuration::NONE;
        let request = &Request { block, ..*request };
        let (mut verdict, mark) =
            self.as_newcomer(request, hash, now, |bucket| bucket.acquire(request, now));
        if verdict.ticket > 0 {
            verdict.ticket |= mark;
        }
        verdict
    }

    /// Runs `work` on a new bucket for the key. Where there is no room for that, runs it once more,
    /// on an overflow bucket, and gives [`SHARED`] beside its outcome.
    #[inline(never)]
    fn as_newcomer<T>(
        &mut self,
        request: &Request<'_>,
        hash: u64,
        now: u64,
        work: impl Fn(&mut Bucket) -> T,
    ) -> (T, u64) {
        let mut bucket = Bucket::new(request.algorithm());
        let done = work(&mut bucket);
        if bucket.is_void(now) {
            return (done, 0);
        }
        if self.make_room(now) {
            self.table.insert(request, hash, bucket);
            return (done, 0);
        }
        let shared = self.overflow_key(request, hash);
        let new = || Bucket::new(request.algorithm());
        (
            work(self.overflow.entry(shared).or_insert_with(new)),
            SHARED,
        )
    }

    /// Blocks the key. `false` if there is no room for it.
    pub(super) fn block(
        &mut self,
        request: &Request<'_>,
        hash: u64,
        duration: u64,
        now: u64,
    ) -> bool {
        if let Some(bucket) = self.own(request, hash) {
            bucket.block(request, duration, now);
            return true;
        }
        let has_room = self.make_room(now);
        if has_room {
            let mut bucket = Bucket::new(request.algorithm());
            bucket.block(request, duration, now);
            self.table.insert(request, hash, bucket);
        }
        has_room
    }

    pub(super) fn peek(&mut self, request: &Request<'_>, hash: u64, now: u64) -> Verdict {
        // A key for which a call would make room has a bucket of its own.
        let is_full = !self.overflow.is_empty()
            && self.table.len() >= self.capacity
            && self.table.find(request.key(), hash).is_none()
            && self.eviction.choose(&mut self.table, now).is_none();
        let bucket = if is_full {
            self.shared(request, hash)
        } else {
            self.own(request, hash)
        };
        match bucket {
            Some(bucket) => bucket.peek(request, now),
            None => Bucket::new(request.algorithm()).peek(request, now),
        }
    }

    /// Sets the block of a request that the limits refuse. A key without a bucket of its own is not
    /// blocked, because the charges may be those of other keys.
    pub(super) fn offend(&mut self, request: &Request<'_>, hash: u64, now: u64) -> Verdict {
        match self.own(request, hash) {
            Some(bucket) => bucket.offend(request, now),
            None => self.peek(request, hash, now),
        }
    }

    /// Gives back a charge. `true` if a part of it still counted.
    pub(super) fn refund(
        &mut self,
        request: &Request<'_>,
        hash: u64,
        ticket: u64,
        now: u64,
    ) -> bool {
        self.charged(request, hash, ticket)
            .is_some_and(|bucket| bucket.refund(request, ticket & !SHARED, now))
    }

    /// Gives back the charge or the reservation of an admission.
    pub(super) fn give_back(&mut self, request: &Request<'_>, hash: u64, ticket: u64, now: u64) {
        if request.is_reservation() {
            self.settle(request, hash, ticket, 0, now);
        } else {
            self.refund(request, hash, ticket, now);
        }
    }

    /// Ends a reservation.
    pub(super) fn settle(
        &mut self,
        request: &Request<'_>,
        hash: u64,
        ticket: u64,
        actual: u64,
        now: u64,
    ) -> Settled {
        let settle = |bucket: &mut Bucket| bucket.settle(request, ticket & !SHARED, actual, now);
        if let Some(bucket) = self.charged(request, hash, ticket) {
            return settle(bucket);
        }
        // Nothing of the charge is left. The actual cost is charged anew.
        match self.own(request, hash) {
            Some(bucket) => settle(bucket),
            None => self.as_newcomer(request, hash, now, settle).0,
        }
    }

    pub(super) fn unblock(&mut self, request: &Request<'_>, hash: u64, now: u64) -> bool {
        self.own(request, hash)
            .is_some_and(|bucket| bucket.unblock(now))
    }

    /// The bucket in which the charge with this ticket was made.
    fn charged(&mut self, request: &Request<'_>, hash: u64, ticket: u64) -> Option<&mut Bucket> {
        if ticket & SHARED == 0 {
            self.own(request, hash)
        } else {
            self.shared(request, hash)
        }
    }

    fn own(&mut self, request: &Request<'_>, hash: u64) -> Option<&mut Bucket> {
        let position = self.table.find(request.key(), hash)?;
        self.table.bucket(position)
    }

    fn shared(&mut self, request: &Request<'_>, hash: u64) -> Option<&mut Bucket> {
        let shared = self.overflow_key(request, hash);
        self.overflow.get_mut(&shared)
    }

    /// Drops the key's bucket. `true` if it still counted. An overflow bucket stays, because it may
    /// hold charges of other keys.
    pub(super) fn reset(&mut self, request: &Request<'_>, hash: u64, now: u64) -> bool {
        let position = self.table.find(request.key(), hash);
        position
            .and_then(|position| self.table.remove(position))
            .is_some_and(|bucket| !bucket.is_void(now))
    }

    /// The keys that begin with `beginning` and are not void.
    pub(super) fn keys(&self, beginning: &[u8], now: u64) -> Vec<Vec<u8>> {
        self.table.keys(beginning, now)
    }

    /// Makes room for one more key. `false` if no key may be dropped for it.
    fn make_room(&mut self, now: u64) -> bool {
        self.newcomers += 1;
        // A clock that has stepped back does not delay a sweep.
        let is_due = || self.newcomers >= 64 && now.abs_diff(self.swept_at) >= SWEEP_PAUSE;
        if self.table.len() >= self.capacity || is_due() {
            self.sweep(now);
        }
        if self.table.len() < self.capacity {
            return true;
        }
        let dropped = self.eviction.choose(&mut self.table, now);
        dropped.is_some_and(|position| self.table.remove(position).is_some())
    }

    fn overflow_key(&self, request: &Request<'_>, hash: u64) -> Box<[u8]> {
        let index = (hash >> 32) % OVERFLOW_BUCKETS;
        let own: Box<[u8]> = [request.rule_key(), &index.to_le_bytes()].concat().into();
        if self.overflow.len() < MAX_OVERFLOW || self.overflow.contains_key(&own) {
            return own;
        }
        // Rules of one algorithm and the same windows share a bucket: their counts mean the same.
        let mut shared = vec![request.algorithm() as u8];
        shared.extend(
            request
                .limits()
                .iter()
                .flat_map(|limit| limit.window_us().to_le_bytes()),
        );
        shared.extend(index.to_le_bytes());
        shared.into()
    }

    fn sweep(&mut self, now: u64) {
        if self.newcomers * 4 < self.table.len() {
            return;
        }
        self.newcomers = 0;
        self.swept_at = now;
        self.table.remove_void(now);
        self.overflow.retain(|_, bucket| !bucket.is_void(now));
    }
}
