//! [`Keyed`]: a key with its bucket.

use smallvec::SmallVec;

use super::bucket::Bucket;
use crate::rule::Limit;
use crate::store::{Request, Verdict};

/// A key with its bucket.
pub(super) struct Keyed {
    /// Of the key: it is worked out once per call, and finds the shard, too.
    pub(super) hash: u64,
    /// Of the part of the key that all keys of its rule share.
    pub(super) rule: u64,
    pub(super) key: Box<[u8]>,
    /// The limits of the last call. Windows are fixed for a key, and every `max` may differ from call to call.
    limits: SmallVec<[Limit; 1]>,
    pub(super) bucket: Bucket,
}

impl Keyed {
    pub(super) fn new(request: &Request<'_>, hash: u64, rule: u64, bucket: Bucket) -> Self {
        Self { hash, rule, key: request.key().into(), limits: SmallVec::from_slice(request.limits()), bucket }
    }

    #[inline]
    pub(super) fn acquire(&mut self, request: &Request<'_>, now: u64) -> Verdict {
        if let ([limit], [last]) = (request.limits(), self.limits.as_mut_slice()) {
            *last = *limit;
        } else {
            self.limits = SmallVec::from_slice(request.limits());
        }
        self.bucket.acquire(request, now)
    }

    /// See [`Kept::loss`](super::kept::Kept::loss).
    pub(super) fn loss(&mut self, now: u64) -> Option<u64> {
        self.bucket.loss(&self.key, &self.limits, now)
    }
}
