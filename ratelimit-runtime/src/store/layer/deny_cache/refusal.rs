//! [`CachedRefusal`]: one request that was refused, and for how long the same answer holds.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use smallvec::SmallVec;

use crate::rule::{Algorithm, BlockDuration, Limit};
use crate::store::{Request, Verdict};

/// A moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    /// In microseconds, by the clock of the process.
    pub(super) process: u64,
    /// In microseconds, by the clock of the store where that is another.
    pub(super) store: u64,
    /// [`Store::epoch`](crate::store::Store::epoch).
    pub(super) epoch: u64,
}

/// A request and the refusal that answered it.
#[derive(Debug)]
pub(super) struct CachedRefusal {
    pub(super) hash: u64,
    pub(super) key: Box<[u8]>,
    limits: SmallVec<[Limit; 1]>,
    cost: u64,
    block: BlockDuration,
    algorithm: Algorithm,
    reservation: bool,
    /// Whether a caller is asking the store again.
    refreshing: AtomicBool,
    /// How often it has answered, as far as that matters.
    hits: AtomicU8,
    /// When the request was looked up, which is before it was sent: so it never holds too long.
    pub(super) looked_up: Moment,
    /// As it was at that moment.
    verdict: Verdict,
}

/// What a refusal is good for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Freshness {
    /// Nothing: another answer may be right by now.
    Over,
    /// It is too old, but a block, which holds for as long as the store is away.
    OldBlock,
    /// It holds.
    Fresh,
    /// It holds, and will be too old soon.
    Due,
}

impl CachedRefusal {
    pub(super) fn new(request: &Request<'_>, hash: u64, looked_up: Moment, verdict: Verdict) -> Self {
        Self {
            hash,
            key: request.key().into(),
            limits: SmallVec::from_slice(request.limits()),
            cost: request.cost(),
            block: request.block_duration(),
            algorithm: request.algorithm(),
            reservation: request.is_reservation(),
            refreshing: AtomicBool::new(false),
            hits: AtomicU8::new(0),
            looked_up,
            verdict,
        }
    }

    /// Takes a newer answer to the same request.
    pub(super) fn renew(&mut self, looked_up: Moment, verdict: Verdict) {
        (self.looked_up, self.verdict) = (looked_up, verdict);
        self.end_refresh();
    }

    pub(super) fn is_of(&self, hash: u64, key: &[u8]) -> bool {
        self.hash == hash && *self.key == *key
    }

    /// Whether this request is the same. Its timeout does not matter.
    pub(super) fn answers(&self, hash: u64, request: &Request<'_>) -> bool {
        self.is_of(hash, request.key())
            && self.cost == request.cost()
            && self.limits.as_slice() == request.limits()
            && self.block == request.block_duration()
            && self.algorithm == request.algorithm()
            && self.reservation == request.is_reservation()
    }

    /// Whether a block refuses, and the request will be refused until `end` at least, by the clock
    /// of the store.
    pub(super) fn is_blocked_until(&self, end: u64) -> bool {
        self.verdict.blocked && self.looked_up.store.saturating_add(self.verdict.retry_after_us) >= end
    }

    /// What it is good for, if refusals hold for `staleness` microseconds.
    pub(super) fn freshness(&self, now: Moment, staleness: u64) -> Freshness {
        let Some((age, elapsed)) = self.since(now) else { return Freshness::Over };
        // Each clock shows whole microseconds, so up to one more may have passed.
        let holds = self.verdict.holds_us();
        if now.epoch != self.looked_up.epoch || elapsed + 1 >= holds {
            return Freshness::Over;
        }
        let age = age.max(elapsed);
        if age >= staleness {
            return if self.verdict.blocked { Freshness::OldBlock } else { Freshness::Over };
        }
        // One that ends by itself before it is too old is not asked for again.
        let is_due = age >= staleness - staleness / 8 && holds > staleness;
        if is_due { Freshness::Due } else { Freshness::Fresh }
    }

    /// Whether no caller was asking the store again; from now on, one is.
    ///
    /// `Relaxed` suffices: the flag guards no other memory, it only elects one of the callers,
    /// which the atomic swap does in any order.
    pub(super) fn begin_refresh(&self) -> bool {
        !self.refreshing.swap(true, Ordering::Relaxed)
    }

    /// The next caller may ask the store again.
    pub(super) fn end_refresh(&mut self) {
        *self.refreshing.get_mut() = false;
    }

    /// It has answered. Nothing is lost with a count that another thread overwrites.
    pub(super) fn hit(&self) {
        let hits = self.hits();
        if hits < u8::MAX {
            self.hits.store(hits + 1, Ordering::Relaxed);
        }
    }

    pub(super) fn hits(&self) -> u8 {
        self.hits.load(Ordering::Relaxed)
    }

    /// Whether it stays although a newcomer wants its place, which counts against it.
    pub(super) fn outlasts_a_newcomer(&mut self) -> bool {
        let hits = self.hits.get_mut();
        let stays = *hits > 0;
        *hits = hits.saturating_sub(1);
        stays
    }

    /// The verdict as it reads now.
    pub(super) fn verdict(&self, now: Moment) -> Verdict {
        let elapsed = self.since(now).map_or(0, |(_, elapsed)| elapsed);
        Verdict { cached: true, ..self.verdict.aged(elapsed) }
    }

    /// How long ago the request was looked up, by the two clocks; `None` if one has stepped back.
    fn since(&self, now: Moment) -> Option<(u64, u64)> {
        Some((now.process.checked_sub(self.looked_up.process)?, now.store.checked_sub(self.looked_up.store)?))
    }
}
