//! [`CachedRefusal`]: one request that was refused, and for how long the same answer holds.

use std::sync::atomic::{AtomicU8, Ordering};

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
    /// [`BuiltInStore::epoch`](crate::store::BuiltInStore::epoch).
    pub(super) epoch: u64,
}

/// A request and the refusal that answered it.
#[derive(Debug)]
pub(super) struct CachedRefusal {
    hash: u64,
    key: Box<[u8]>,
    limits: SmallVec<[Limit; 1]>,
    cost: u64,
    block: BlockDuration,
    algorithm: Algorithm,
    reservation: bool,
    /// How often it has answered, as far as that matters.
    hits: AtomicU8,
    /// When the request was looked up, which is before it was sent: so it never holds too long.
    looked_up: Moment,
    /// As it was at that moment.
    verdict: Verdict,
}

impl CachedRefusal {
    pub(super) fn new(request: &Request<'_>, hash: u64, looked_up: Moment, verdict: Verdict) -> Self {
        Self {
            hash,
            key: request.key().into(),
            limits: SmallVec::from_slice(request.limits()),
            cost: request.cost(),
            block: request.block,
            algorithm: request.algorithm(),
            reservation: request.is_reservation(),
            hits: AtomicU8::new(0),
            looked_up,
            verdict,
        }
    }

    /// Takes another answer to the same request, if that was asked for later.
    pub(super) fn renew(&mut self, looked_up: Moment, verdict: Verdict) {
        if self.looked_up.process <= looked_up.process {
            (self.looked_up, self.verdict) = (looked_up, verdict);
        }
    }

    pub(super) fn is_of(&self, hash: u64, key: &[u8]) -> bool {
        self.hash == hash && *self.key == *key
    }

    /// Whether this request is the same. Its timeout does not matter.
    #[inline]
    pub(super) fn is_to(&self, hash: u64, request: &Request<'_>) -> bool {
        self.is_of(hash, request.key())
            && self.cost == request.cost()
            && match (self.limits.as_slice(), request.limits()) {
                // Without a loop, as most rules have it.
                ([own], [limit]) => own == limit,
                (own, limits) => own == limits,
            }
            && self.block == request.block
            && self.algorithm == request.algorithm()
            && self.reservation == request.is_reservation()
    }

    /// Whether a block refuses, and the request will be refused until `end` at least, by the clock
    /// of the store.
    pub(super) fn is_blocked_until(&self, end: u64) -> bool {
        self.verdict.blocked && self.looked_up.store.saturating_add(self.verdict.retry_after_us) >= end
    }

    /// The verdict as it reads now, if it holds: refusals do for `staleness` microseconds, blocks
    /// also longer while the store is away.
    #[inline]
    pub(super) fn answer(&self, now: Moment, staleness: u64, is_away: impl FnOnce() -> bool) -> Option<Verdict> {
        let elapsed = self.holds(now, staleness, is_away)?;
        // Nothing is lost with a count that another thread overwrites.
        let hits = self.hits();
        if hits < u8::MAX {
            self.hits.store(hits + 1, Ordering::Relaxed);
        }
        Some(Verdict { cached: true, ..self.verdict.aged(elapsed) })
    }

    /// For how long it has held, if it does.
    #[inline]
    fn holds(&self, now: Moment, staleness: u64, is_away: impl FnOnce() -> bool) -> Option<u64> {
        // `None` where a clock has stepped back.
        let age = now.process.checked_sub(self.looked_up.process)?;
        let elapsed = now.store.checked_sub(self.looked_up.store)?;
        // Each clock shows whole microseconds, so up to one more may have passed.
        let is_over = now.epoch != self.looked_up.epoch || elapsed + 1 >= self.verdict.holds_us();
        let is_old = age.max(elapsed) >= staleness;
        (!is_over && (!is_old || self.verdict.blocked && is_away())).then_some(elapsed)
    }

    /// Whether nothing is answered by it any more, but a block while the store is away.
    pub(super) fn is_over(&self, now: Moment, staleness: u64) -> bool {
        self.holds(now, staleness, || false).is_none()
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
}
