//! [`Refusals`]: requests that were refused, so that this process refuses them again without asking
//! the server; bounded in number, each for as long as it holds.

use std::sync::Arc;

use super::known_key::KnownKey;
use super::moment::Moment;
use super::sets::{SET_SIZE, Set, Sets};
use crate::algorithm::RESERVED_WAIT;
use crate::rule::BlockDuration;
use crate::store::{Request, Verdict};

/// Clones share what is known.
#[derive(Clone)]
pub(super) struct Refusals {
    sets: Arc<Sets<RefusalSet>>,
    /// The time for which a refusal holds, in microseconds.
    pub(super) staleness: u64,
}

const _: () = assert!(size_of::<Set<RefusalSet>>() == 64);

#[derive(Default)]
struct RefusalSet {
    refusals: Vec<KnownRefusal>,
    /// Raised by every change that may void an earlier answer about one of the keys.
    changes: u64,
}

/// A request that no refusal answers: the store has to be asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Miss {
    pub(super) hash: u64,
    /// The count of changes of the set before the store is asked.
    changes: u64,
}

/// A request and the refusal that answered it. For a key and its limits, only the newest one is
/// known.
struct KnownRefusal {
    of: KnownKey,
    cost: u64,
    block: BlockDuration,
    /// The time just before the request was sent.
    sent_at: Moment,
    /// The time at which the verdict arrived; the store reached it after `sent_at`.
    replied: u64,
    verdict: Verdict,
}

impl Refusals {
    /// Room for about `capacity` refusals that hold for `staleness` microseconds.
    pub(super) fn new(capacity: usize, staleness: u64) -> Self {
        Self {
            sets: Arc::new(Sets::new(capacity)),
            staleness,
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.sets.has_room()
    }

    /// The refusal that answers a request. Reads the clock only if there is one.
    #[inline]
    pub(super) fn find(
        &self,
        request: &Request<'_>,
        now: impl FnOnce() -> Moment,
        is_away: impl FnOnce() -> bool,
    ) -> Result<Verdict, Miss> {
        let hash = self.sets.hash(request.key());
        let Some(set) = self.sets.read(hash) else {
            return Err(Miss { hash, changes: 0 });
        };
        let refusal = set
            .refusals
            .iter()
            .find(|refusal| refusal.of.is_of(hash, request))
            .filter(|refusal| refusal.refuses(request));
        let answer =
            refusal.and_then(|refusal| refusal.answer(request, now(), self.staleness, is_away));
        answer.ok_or(Miss {
            hash,
            changes: set.changes,
        })
    }

    /// The miss of a request that is asked of the store whatever is known.
    pub(super) fn miss(&self, request: &Request<'_>) -> Miss {
        let hash = self.sets.hash(request.key());
        let changes = self.sets.read(hash).map_or(0, |set| set.changes);
        Miss { hash, changes }
    }

    /// Adds the refusal of a request that was sent at `sent_at` or later, unless its set has
    /// changed since the miss.
    pub(super) fn add(
        &self,
        request: &Request<'_>,
        miss: Miss,
        sent_at: Moment,
        now: Moment,
        verdict: Verdict,
    ) {
        let Miss { hash, changes } = miss;
        let is_void = |set: &RefusalSet| set.changes != changes || now.epoch != sent_at.epoch;
        let Some(mut set) = self.sets.write(hash).filter(|set| !is_void(set)) else {
            return;
        };
        let refusals = &mut set.refusals;
        // Behind a block, the wait that open reservations are told begins anew with each answer.
        let is_by_reservations = verdict.holds > 0 && verdict.retry_after_us == RESERVED_WAIT;
        let newcomer = KnownRefusal {
            of: KnownKey::new(request, hash, sent_at.time),
            cost: request.cost(),
            block: request.block,
            sent_at,
            replied: now.time,
            verdict: if is_by_reservations {
                verdict.by_block_alone()
            } else {
                verdict
            },
        };
        let has_room = refusals.len() < SET_SIZE;
        let mut places = refusals.iter_mut();
        if let Some(known) = places.find(|refusal| refusal.of.is_of(hash, request)) {
            // What a clock shows that was set back is newer all the same.
            if known.sent_at.time <= sent_at.time || now.time < known.sent_at.time {
                *known = newcomer;
            }
        } else if has_room {
            refusals.push(newcomer);
        } else if let Some(least) = refusals
            .iter_mut()
            .min_by_key(|refusal| refusal.of.last_use())
        {
            *least = newcomer;
        }
    }

    /// Drops the refusals of a key, and those about to arrive.
    pub(super) fn forget(&self, key: &[u8]) {
        if self.has_room() {
            self.forget_of(self.sets.hash(key), key);
        }
    }

    pub(super) fn forget_of(&self, hash: u64, key: &[u8]) {
        if let Some(mut set) = self.sets.write(hash) {
            set.changes += 1;
            set.refusals
                .retain(|refusal| !refusal.of.is_about(hash, key));
        }
    }
}

impl KnownRefusal {
    /// `true` if this refusal, while it holds, refuses the request: by a block at any cost; by
    /// limits from its own cost on, because a wait grows with the cost. A request with another
    /// block is sent, because it sets that block.
    #[inline]
    fn refuses(&self, request: &Request<'_>) -> bool {
        self.verdict.blocked || (self.cost <= request.cost() && self.block == request.block)
    }

    /// The verdict as of `now`, if it still holds: for `staleness` microseconds, with `prefetch`
    /// for at most a lease; a block also longer while the store is away.
    #[inline]
    fn answer(
        &self,
        request: &Request<'_>,
        now: Moment,
        staleness: u64,
        is_away: impl FnOnce() -> bool,
    ) -> Option<Verdict> {
        // `None` where the clock has stepped back.
        let elapsed = now.time.checked_sub(self.sent_at.time)?;
        let verdict = if request.cost() < self.cost {
            self.verdict.by_block_alone()
        } else {
            self.verdict
        };
        // It may be for units that another process holds, for a lease at most.
        let staleness = match request.prefetch_us {
            0 => staleness,
            lease => staleness.min(lease.into()),
        };
        let is_over = now.epoch != self.sent_at.epoch || elapsed >= verdict.holds_us();
        if is_over || (elapsed >= staleness && !(verdict.blocked && is_away())) {
            return None;
        }
        self.of.note_use(now.time);
        Some(Verdict {
            cached: true,
            ..verdict.aged(now.time.saturating_sub(self.replied))
        })
    }
}
