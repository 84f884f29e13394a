//! [`Keyed`]: a key with its bucket.

use smallvec::SmallVec;

use super::bucket::Bucket;
use crate::rule::Limit;
use crate::store::{Request, Verdict};

/// How long a key may be that takes no memory of its own, in bytes.
const INLINE: usize = 56;

/// A key with its bucket.
pub(super) struct Keyed {
    /// Of the key: it is worked out once per call, and finds the shard, too.
    pub(super) hash: u64,
    /// Of the part of the key that all keys of its rule share.
    pub(super) rule: u64,
    /// Beside the state, if it is not longer than most.
    pub(super) key: SmallVec<[u8; INLINE]>,
    /// The limits of the last call. Windows are fixed for a key, and every `max` may differ from
    /// call to call.
    first: Option<Limit>,
    others: Box<[Limit]>,
    pub(super) bucket: Bucket,
}

impl Keyed {
    pub(super) fn new(request: &Request<'_>, hash: u64, rule: u64, bucket: Bucket) -> Self {
        let others = request.limits().get(1..).unwrap_or_default();
        let first = request.limits().first().copied();
        Self { hash, rule, key: request.key().into(), first, others: others.into(), bucket }
    }

    #[allow(clippy::inline_always, reason = "it is what a store does")]
    #[inline(always)]
    pub(super) fn acquire(&mut self, request: &Request<'_>, now: u64) -> Verdict {
        if let [limit] = request.limits() {
            self.first = Some(*limit);
        } else {
            self.keep(request.limits());
        }
        self.bucket.acquire(request, now)
    }

    #[cold]
    fn keep(&mut self, limits: &[Limit]) {
        let [first, others @ ..] = limits else { return };
        self.first = Some(*first);
        if self.others.len() == others.len() {
            self.others.copy_from_slice(others);
        } else {
            self.others = others.into();
        }
    }

    /// See [`Kept::loss`](super::kept::Kept::loss).
    pub(super) fn loss(&mut self, now: u64) -> Option<u64> {
        let limits: SmallVec<[Limit; 2]> = self.first.iter().chain(&self.others).copied().collect();
        self.bucket.loss(&self.key, &limits, now)
    }
}
