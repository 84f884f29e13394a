//! [`Places`]: the calls in flight of the keys of a shard.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use foldhash::quality::RandomState;

use crate::store::{Entry, PermitId, PlaceRequest, Verdict};

/// How many calls of each key are in flight, and which permits they have.
///
/// There are no more keys and permits than calls in flight, which bounds them: each call takes more
/// memory by itself.
#[derive(Default)]
pub(super) struct Places {
    /// By key; never 0.
    calls: HashMap<Arc<[u8]>, u64, RandomState>,
    permits: HashSet<PermitId, RandomState>,
}

impl Places {
    /// Takes a place if one is free and `decide` admits the call, which is told whether one is.
    pub(super) fn enter(&mut self, place: &PlaceRequest, decide: impl FnOnce(bool) -> Vec<Verdict>) -> Entry {
        // One that asks again is not counted twice.
        self.leave(&place.key, place.permit);
        let taken = self.in_flight(&place.key);
        if taken >= place.max {
            return Entry { is_full: true, in_flight: taken, verdicts: decide(false) };
        }
        let entry = Entry { is_full: false, in_flight: taken + 1, verdicts: decide(true) };
        if !entry.is_entered() {
            return Entry { in_flight: taken, ..entry };
        }
        if let Some(calls) = self.calls.get_mut(&place.key) {
            *calls += 1;
        } else {
            self.calls.insert(Arc::clone(&place.key), 1);
        }
        self.permits.insert(place.permit);
        entry
    }

    /// Leaves the place of a permit, if it has one.
    pub(super) fn leave(&mut self, key: &[u8], permit: PermitId) {
        if self.permits.remove(&permit)
            && let Some(calls) = self.calls.get_mut(key)
        {
            *calls -= 1;
            if *calls == 0 {
                self.calls.remove(key);
            }
        }
    }

    /// How many calls of the key are in flight.
    pub(super) fn in_flight(&self, key: &[u8]) -> u64 {
        self.calls.get(key).copied().unwrap_or_default()
    }

    /// The keys that begin with this, and have calls in flight.
    pub(super) fn keys(&self, prefix: &[u8]) -> Vec<Vec<u8>> {
        self.calls.keys().filter(|key| key.starts_with(prefix)).map(|key| key.to_vec()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_left_once_and_nothing_is_kept_of_it() {
        let mut places = Places::default();
        let [first, second] = [PlaceRequest::new(b"key", 1), PlaceRequest::new(b"key", 1)];
        let enter = |places: &mut Places, place: &PlaceRequest| places.enter(place, |_| Vec::new());
        assert!(enter(&mut places, &first).is_entered());
        assert!(enter(&mut places, &second).is_full);
        places.leave(b"key", second.permit);
        assert_eq!(places.in_flight(b"key"), 1);
        for _ in 0..2 {
            places.leave(b"key", first.permit);
            assert!(places.calls.is_empty() && places.permits.is_empty());
        }
        assert!(enter(&mut places, &second).is_entered());
    }
}
