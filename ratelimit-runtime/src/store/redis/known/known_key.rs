//! [`KnownKey`]: the key, limits and algorithm of a refusal or a grant.

use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;

use crate::rule::{Algorithm, Limit};
use crate::store::Request;

/// The key, limits and algorithm of a refusal or a grant, by which requests find it.
pub(super) struct KnownKey {
    pub(super) hash: u64,
    pub(super) key: Box<[u8]>,
    pub(super) limits: SmallVec<[Limit; 1]>,
    pub(super) algorithm: Algorithm,
    /// The time at which the refusal or grant last answered a request, in microseconds.
    used: AtomicU64,
}

impl KnownKey {
    pub(super) fn new(request: &Request<'_>, hash: u64, now: u64) -> Self {
        Self {
            hash,
            key: request.key().into(),
            limits: SmallVec::from_slice(request.limits()),
            algorithm: request.algorithm(),
            used: AtomicU64::new(now),
        }
    }

    #[inline]
    pub(super) fn is_about(&self, hash: u64, key: &[u8]) -> bool {
        self.hash == hash && *self.key == *key
    }

    /// `true` if the request is about this key, under equal limits and algorithm.
    #[inline]
    pub(super) fn is_of(&self, hash: u64, request: &Request<'_>) -> bool {
        self.is_about(hash, request.key())
            && match (self.limits.as_slice(), request.limits()) {
                // Without a loop, as most rules have it.
                ([own], [limit]) => own == limit,
                (own, limits) => own == limits,
            }
            && self.algorithm == request.algorithm()
    }

    #[inline]
    pub(super) fn note_use(&self, now: u64) {
        self.used.store(now, Ordering::Relaxed);
    }

    pub(super) fn last_use(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}
