//! [`Refusals`]: the refusals of a deny cache, bounded in number.
//!
//! A key belongs to one of many small sets, by a hash with a random seed. A set has a lock of its
//! own and room for [`SET_SIZE`] refusals; nothing is ever looked for beyond it.

use std::fmt;
use std::hash::BuildHasher as _;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use foldhash::quality::RandomState;

use super::refusal::{CachedRefusal, Moment};
use crate::store::{Request, Verdict};

/// How many refusals a set holds.
const SET_SIZE: usize = 8;
/// Further bits of the hash tell keys of one set apart, so that a change of one does not count as
/// one of them all. No more, or a set would take two cache lines.
const CHANGES: usize = 4;

pub(super) struct Refusals {
    /// A power of two of them, or none.
    sets: Box<[Set]>,
    hasher: RandomState,
    /// For how long a refusal holds, in microseconds.
    pub(super) staleness: u64,
}

/// Its lock shares a cache line with no other. Nothing under it can be left half-changed.
#[derive(Default)]
#[repr(align(64))]
struct Set(RwLock<Kept>);

#[derive(Default)]
struct Kept {
    refusals: Vec<CachedRefusal>,
    /// Raised by whatever may make an earlier answer void.
    changes: [u32; CHANGES],
}

/// What is known of a request that the store has to be asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Miss {
    hash: u64,
    /// The count of changes of the key.
    change: u32,
    /// When it was looked up. The request is sent later, so that what holds counted from here
    /// holds counted from there.
    looked_up: Moment,
}

impl Miss {
    /// The store's epoch when the request was looked up.
    pub(super) fn epoch(&self) -> u64 {
        self.looked_up.epoch
    }
}

impl Refusals {
    /// Room for about so many.
    pub(super) fn new(capacity: usize, staleness: u64) -> Self {
        let sets = if capacity == 0 { 0 } else { capacity.div_ceil(SET_SIZE).next_power_of_two() };
        Self { sets: (0..sets).map(|_| Set::default()).collect(), hasher: RandomState::default(), staleness }
    }

    pub(super) fn are_kept(&self) -> bool {
        !self.sets.is_empty()
    }

    /// The refusal that answers a request. The clock is read only where there is one.
    #[inline]
    pub(super) fn find(
        &self,
        request: &Request<'_>,
        now: impl FnOnce() -> Moment,
        is_away: impl FnOnce() -> bool,
    ) -> Option<Verdict> {
        let hash = self.hasher.hash_one(request.key());
        let kept = self.read(hash)?;
        let refusal = kept.refusals.iter().find(|refusal| refusal.is_to(hash, request))?;
        refusal.answer(now(), self.staleness, is_away)
    }

    /// The same, of a request that is sent where there is none.
    pub(super) fn look(
        &self,
        request: &Request<'_>,
        now: Moment,
        is_away: impl FnOnce() -> bool,
    ) -> Result<Verdict, Miss> {
        let hash = self.hasher.hash_one(request.key());
        let Some(kept) = self.read(hash) else { return Err(Miss { hash, change: 0, looked_up: now }) };
        let refusal = kept.refusals.iter().find(|refusal| refusal.is_to(hash, request));
        let answer = refusal.and_then(|refusal| refusal.answer(now, self.staleness, is_away));
        answer.ok_or_else(|| Miss { hash, change: kept.change(hash), looked_up: now })
    }

    /// Keeps a refusal, unless something has changed since the request was looked up.
    pub(super) fn keep(&self, request: &Request<'_>, miss: &Miss, verdict: Verdict) {
        let Miss { hash, change, looked_up } = *miss;
        let Some(mut kept) = self.write(hash).filter(|kept| kept.change(hash) == change) else { return };
        if verdict.blocked {
            // The block may be a new one, which others do not know of.
            let end = looked_up.store.saturating_add(verdict.retry_after_us);
            kept.refusals.retain(|other| {
                !other.is_of(hash, request.key()) || other.is_to(hash, request) || other.is_blocked_until(end)
            });
        }
        if let Some(known) = kept.refusals.iter_mut().find(|refusal| refusal.is_to(hash, request)) {
            return known.renew(looked_up, verdict);
        }
        let newcomer = || CachedRefusal::new(request, hash, looked_up, verdict);
        if let Some(over) = kept.refusals.iter_mut().find(|refusal| refusal.is_over(looked_up, self.staleness)) {
            *over = newcomer();
        } else if kept.refusals.len() < SET_SIZE {
            kept.refusals.push(newcomer());
        } else if let Some(least) = kept.refusals.iter_mut().min_by_key(|refusal| refusal.hits()) {
            // A newcomer takes the place of one that has answered no call. Else it has to come as
            // often as that one has answered: minting keys costs a call for each hit driven out.
            if !least.outlasts_a_newcomer() {
                *least = newcomer();
            }
        }
    }

    /// Forgets a key, and what is on its way about it.
    pub(super) fn forget(&self, key: &[u8]) {
        if !self.are_kept() {
            return;
        }
        let hash = self.hasher.hash_one(key);
        if let Some(mut kept) = self.write(hash) {
            if let Some(change) = kept.changes.get_mut(slot(hash)) {
                *change = change.wrapping_add(1);
            }
            kept.refusals.retain(|refusal| !refusal.is_of(hash, key));
        }
    }

    fn set(&self, hash: u64) -> Option<&Set> {
        // With no sets, there is none at any index.
        #[allow(clippy::cast_possible_truncation, reason = "masked to the number of sets")]
        let index = hash as usize & self.sets.len().wrapping_sub(1);
        self.sets.get(index)
    }

    #[inline]
    fn read(&self, hash: u64) -> Option<RwLockReadGuard<'_, Kept>> {
        self.set(hash).map(|set| set.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write(&self, hash: u64) -> Option<RwLockWriteGuard<'_, Kept>> {
        self.set(hash).map(|set| set.0.write().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Kept {
    fn change(&self, hash: u64) -> u32 {
        self.changes.get(slot(hash)).copied().unwrap_or_default()
    }
}

/// By other bits than those that choose the set.
fn slot(hash: u64) -> usize {
    (hash >> 62) as usize % CHANGES
}

impl fmt::Debug for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refusals")
            .field("capacity", &(self.sets.len() * SET_SIZE))
            .field("staleness_us", &self.staleness)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_takes_is_what_the_documentation_says() {
        assert_eq!(size_of::<Set>(), 64);
        assert!(size_of::<CachedRefusal>() <= 184, "{}", size_of::<CachedRefusal>());
    }
}
