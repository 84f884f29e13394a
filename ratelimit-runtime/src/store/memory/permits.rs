//! [`ShardPermits`]: the permits of a shard's calls in flight.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use foldhash::quality::RandomState;

use crate::store::{PermitId, PermitRequest, PermitVerdict, Verdict};

/// The permits of the calls in flight, by key.
///
/// There are no more keys and permits than calls in flight, which bounds their memory: each call
/// takes more by itself.
#[derive(Default)]
pub(super) struct ShardPermits {
    /// No key has an empty set.
    by_key: HashMap<Arc<[u8]>, HashSet<PermitId, RandomState>, RandomState>,
}

impl ShardPermits {
    /// Acquires a permit if one is free and `decide`, which gets `true` then, admits the call.
    pub(super) fn acquire(
        &mut self,
        request: &PermitRequest,
        decide: impl FnOnce(bool) -> Vec<Verdict>,
    ) -> PermitVerdict {
        // A permit that asks again is not counted twice.
        self.release(request);
        let taken = self.in_flight(&request.key);
        let is_full = taken >= request.max;
        let mut verdict = PermitVerdict {
            is_full,
            in_flight: taken,
            verdicts: decide(!is_full),
        };
        if verdict.is_acquired() {
            verdict.in_flight += 1;
            let permits = self.by_key.entry(Arc::clone(&request.key)).or_default();
            permits.insert(request.id);
        }
        verdict
    }

    /// Releases a permit, if it is held.
    pub(super) fn release(&mut self, request: &PermitRequest) {
        if let Some(permits) = self.by_key.get_mut(&request.key) {
            permits.remove(&request.id);
            if permits.is_empty() {
                self.by_key.remove(&request.key);
            }
        }
    }

    /// The number of calls of the key that are in flight.
    pub(super) fn in_flight(&self, key: &[u8]) -> u64 {
        self.by_key
            .get(key)
            .map_or(0, |permits| permits.len() as u64)
    }

    /// The keys that begin with `prefix` and have calls in flight.
    pub(super) fn keys(&self, prefix: &[u8]) -> Vec<Vec<u8>> {
        self.by_key
            .keys()
            .filter(|key| key.starts_with(prefix))
            .map(|key| key.to_vec())
            .collect()
    }
}
