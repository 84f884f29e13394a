//! [`Refusals`]: the refusals of a deny cache, bounded in number.
//!
//! A key belongs to one of many small sets, by a hash with a random seed. A set has a lock of its
//! own and room for [`SET_SIZE`] refusals; nothing is ever looked for beyond it.

use std::fmt;
use std::hash::BuildHasher as _;
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

use foldhash::quality::RandomState;

use super::refusal::{CachedRefusal, Freshness, Moment};
use crate::store::{OwnedRequest, Request, Verdict};

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

/// Its lock shares a cache line with no other.
#[derive(Default)]
#[repr(align(64))]
struct Set(RwLock<Kept>);

#[derive(Default)]
struct Kept {
    refusals: Vec<CachedRefusal>,
    /// Raised by whatever may make an earlier answer void.
    changes: [u32; CHANGES],
}

/// What the cache has about a request.
pub(super) enum CacheAnswer {
    /// Its refusal, which holds.
    Refusal(Verdict),
    /// A block that another caller is asking about: it holds only while the store is away.
    OldBlock(Verdict, Miss),
    /// No answer.
    Miss(Miss),
}

/// A request that the store has to be asked, and what was found out about it on the way. It is no
/// larger than a verdict: an answer at once, which is what most calls get, may be in its place.
#[derive(Debug)]
pub(in crate::store) struct Miss {
    hash: u64,
    /// The count of changes of the key.
    change: u32,
    /// When it was looked up. The request was sent later, so that what holds counted from here
    /// holds counted from there.
    looked_up: Moment,
    /// Of a request that was refused before.
    refused: Option<Box<RefusedBefore>>,
}

#[derive(Debug)]
struct RefusedBefore {
    /// What is answered if the store turns out to be away.
    block: Option<Verdict>,
    /// Ends with the miss, where others are answered from the cache meanwhile.
    _refresh: Option<Refresh>,
}

/// One caller asks the store again while others are answered from the cache. However that ends,
/// and also when the caller gives up, the next one may.
///
/// Its drop takes the write lock of the set, so none is dropped while that is locked: `find` makes
/// it under the read lock as the last thing, and hands it out.
struct Refresh {
    refusals: Arc<Refusals>,
    hash: u64,
    request: OwnedRequest,
}

impl Drop for Refresh {
    fn drop(&mut self) {
        self.refusals.end_refresh(self.hash, &self.request.as_request());
    }
}

impl Refusals {
    /// Room for about so many.
    pub(super) fn new(capacity: usize, staleness: u64) -> Self {
        let sets = if capacity == 0 { 0 } else { capacity.div_ceil(SET_SIZE).next_power_of_two() };
        Self { sets: (0..sets).map(|_| Set::default()).collect(), hasher: RandomState::default(), staleness }
    }

    pub(super) fn are_kept(&self) -> bool {
        !self.sets.is_empty() && self.staleness > 0
    }

    /// Looks a request up. A caller that gets a [`Miss`] asks the store, or drops it.
    pub(super) fn find(self: &Arc<Self>, request: &Request<'_>, now: Moment) -> CacheAnswer {
        let hash = self.hasher.hash_one(request.key());
        let Some(set) = self.set(hash) else { return CacheAnswer::Miss(Miss::new(hash, 0, now)) };
        let kept = set.0.read().unwrap_or_else(PoisonError::into_inner);
        let Some(refusal) = kept.refusals.iter().find(|refusal| refusal.answers(hash, request)) else {
            return CacheAnswer::Miss(Miss::new(hash, kept.change(hash), now));
        };
        match refusal.freshness(now, self.staleness) {
            Freshness::Over => CacheAnswer::Miss(Miss::new(hash, kept.change(hash), now)),
            Freshness::Due | Freshness::OldBlock if refusal.begin_refresh() => {
                let refused = RefusedBefore {
                    block: refusal.is_blocked_until(0).then(|| refusal.verdict(now)),
                    _refresh: Some(Refresh { refusals: Arc::clone(self), hash, request: request.into_owned() }),
                };
                CacheAnswer::Miss(Miss { refused: Some(Box::new(refused)), ..Miss::new(hash, kept.change(hash), now) })
            }
            Freshness::OldBlock => {
                let block = refusal.verdict(now);
                let refused = RefusedBefore { block: Some(block), _refresh: None };
                let miss = Miss { refused: Some(Box::new(refused)), ..Miss::new(hash, kept.change(hash), now) };
                CacheAnswer::OldBlock(block, miss)
            }
            Freshness::Fresh | Freshness::Due => {
                refusal.hit();
                CacheAnswer::Refusal(refusal.verdict(now))
            }
        }
    }

    /// What is known of a request and what it is good for. Nothing is counted, and no caller takes
    /// the turn to ask the store again.
    pub(super) fn known(&self, request: &Request<'_>, now: Moment) -> Option<(Freshness, Verdict)> {
        let hash = self.hasher.hash_one(request.key());
        let kept = self.set(hash)?.0.read().unwrap_or_else(PoisonError::into_inner);
        let refusal = kept.refusals.iter().find(|refusal| refusal.answers(hash, request))?;
        Some((refusal.freshness(now, self.staleness), refusal.verdict(now)))
    }

    /// Keeps a refusal, unless something has changed since the request was looked up.
    pub(super) fn keep(&self, request: &Request<'_>, miss: &Miss, verdict: Verdict) {
        let Miss { hash, change, looked_up, .. } = *miss;
        let Some(mut kept) = self.write(hash).filter(|kept| kept.change(hash) == change) else { return };
        if verdict.blocked {
            // The block may be a new one, which others do not know of.
            let end = looked_up.store.saturating_add(verdict.retry_after_us);
            kept.refusals.retain(|other| {
                !other.is_of(hash, request.key()) || other.answers(hash, request) || other.is_blocked_until(end)
            });
        }
        if let Some(known) = kept.refusals.iter_mut().find(|refusal| refusal.answers(hash, request)) {
            if known.looked_up.process <= looked_up.process {
                known.renew(looked_up, verdict);
            }
            return;
        }
        let refusal = || CachedRefusal::new(request, hash, looked_up, verdict);
        let is_over = |refusal: &CachedRefusal| {
            matches!(refusal.freshness(looked_up, self.staleness), Freshness::Over | Freshness::OldBlock)
        };
        if let Some(over) = kept.refusals.iter_mut().find(|refusal| is_over(refusal)) {
            *over = refusal();
        } else if kept.refusals.len() < SET_SIZE {
            kept.refusals.push(refusal());
        } else if let Some(least) = kept.refusals.iter_mut().min_by_key(|refusal| refusal.hits()) {
            // A newcomer takes the place of one that has answered no call. Else it has to come as
            // often as that one has answered: minting keys costs a call for each hit driven out.
            if !least.outlasts_a_newcomer() {
                *least = refusal();
            }
        }
    }

    /// Forgets a key, and what is on its way about it.
    pub(super) fn forget(&self, key: &[u8]) {
        if !self.sets.is_empty() {
            self.forget_at(self.hasher.hash_one(key), key);
        }
    }

    /// The same for the key of a miss.
    pub(super) fn forget_missed(&self, miss: &Miss, key: &[u8]) {
        self.forget_at(miss.hash, key);
    }

    fn forget_at(&self, hash: u64, key: &[u8]) {
        if let Some(mut kept) = self.write(hash) {
            if let Some(change) = kept.changes.get_mut(slot(hash)) {
                *change = change.wrapping_add(1);
            }
            kept.refusals.retain(|refusal| !refusal.is_of(hash, key));
        }
    }

    /// The next caller may ask the store about this request again.
    fn end_refresh(&self, hash: u64, request: &Request<'_>) {
        if let Some(mut kept) = self.write(hash)
            && let Some(refusal) = kept.refusals.iter_mut().find(|refusal| refusal.answers(hash, request))
        {
            refusal.end_refresh();
        }
    }

    fn set(&self, hash: u64) -> Option<&Set> {
        // With no sets, there is none at any index.
        #[allow(clippy::cast_possible_truncation, reason = "masked to the number of sets")]
        let index = hash as usize & self.sets.len().wrapping_sub(1);
        self.sets.get(index)
    }

    fn write(&self, hash: u64) -> Option<RwLockWriteGuard<'_, Kept>> {
        // Nothing under the lock can be left half-changed.
        self.set(hash).map(|set| set.0.write().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Miss {
    fn new(hash: u64, change: u32, looked_up: Moment) -> Self {
        Self { hash, change, looked_up, refused: None }
    }

    /// What is answered if the store turns out to be away.
    pub(super) fn block(&self) -> Option<Verdict> {
        self.refused.as_ref()?.block
    }

    /// The store's epoch when the request was looked up.
    pub(super) fn epoch(&self) -> u64 {
        self.looked_up.epoch
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

impl fmt::Debug for Refresh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Refresh").field(&self.request).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_takes_is_what_the_documentation_says() {
        assert_eq!(size_of::<Set>(), 64);
        assert!(size_of::<Miss>() <= size_of::<Verdict>(), "{}", size_of::<Miss>());
        assert!(size_of::<CachedRefusal>() <= 184, "{}", size_of::<CachedRefusal>());
    }
}
