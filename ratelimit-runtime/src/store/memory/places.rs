//! [`Places`]: the calls in flight of the keys of a shard.

use std::collections::HashMap;

use foldhash::quality::RandomState;

use crate::store::{Entry, PermitId, PlaceRequest, Verdict};

/// How many calls of each key are in flight, and which permits they have.
///
/// There are as many permits as calls in flight, which bounds them. Keys are bounded as those of
/// limits are: those that come when there is no room for them count as one key.
pub(super) struct Places {
    capacity: usize,
    /// By key; never 0.
    calls: HashMap<Box<[u8]>, u64, RandomState>,
    /// Of the keys that are counted as one.
    overflow: u64,
    permits: HashMap<PermitId, Counted, RandomState>,
}

/// Where a permit is counted.
#[derive(Clone, Copy)]
enum Counted {
    /// Under its key.
    Key,
    /// With other keys.
    Overflow,
}

impl Places {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, calls: HashMap::default(), overflow: 0, permits: HashMap::default() }
    }

    /// Takes a place if one is free and `decide` admits the call, which is told whether one is.
    pub(super) fn enter(&mut self, place: &PlaceRequest<'_>, decide: impl FnOnce(bool) -> Vec<Verdict>) -> Entry {
        if let Some(replaced) = place.replaces() {
            self.leave(place.key(), replaced);
        }
        // One that asks again is not counted twice.
        self.leave(place.key(), place.permit());
        let taken = self.in_flight(place.key());
        if taken >= place.max() {
            return Entry::full(taken, decide(false));
        }
        let entry = Entry::free(taken + 1, decide(true));
        if !entry.is_entered() {
            return Entry { in_flight: taken, ..entry };
        }
        let has_capacity = self.calls.len() < self.capacity;
        let counted = if let Some(calls) = self.calls.get_mut(place.key()) {
            *calls += 1;
            Counted::Key
        } else if has_capacity {
            self.calls.insert(place.key().into(), 1);
            Counted::Key
        } else {
            self.overflow += 1;
            Counted::Overflow
        };
        self.permits.insert(place.permit(), counted);
        entry
    }

    /// Leaves the place of a permit, if it has one.
    pub(super) fn leave(&mut self, key: &[u8], permit: PermitId) {
        match self.permits.remove(&permit) {
            None => {}
            Some(Counted::Overflow) => self.overflow = self.overflow.saturating_sub(1),
            Some(Counted::Key) => {
                if let Some(calls) = self.calls.get_mut(key) {
                    *calls -= 1;
                    if *calls == 0 {
                        self.calls.remove(key);
                    }
                }
            }
        }
    }

    /// How many calls of the key are in flight; of a key for which there is no room, those of all
    /// such keys.
    pub(super) fn in_flight(&self, key: &[u8]) -> u64 {
        match self.calls.get(key) {
            Some(calls) => *calls,
            None if self.calls.len() < self.capacity => 0,
            None => self.overflow,
        }
    }

    /// The keys that begin with this, and have calls in flight.
    pub(super) fn keys(&self, prefix: &[u8]) -> Vec<Vec<u8>> {
        self.calls.keys().filter(|key| key.starts_with(prefix)).map(|key| key.to_vec()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(key: &[u8], max: u64) -> PlaceRequest<'_> {
        PlaceRequest::new(key, max, PermitId::next())
    }

    #[test]
    fn a_place_is_left_once_and_nothing_is_kept_of_it() {
        let mut places = Places::new(4);
        let [first, second] = [place(b"key", 1), place(b"key", 1)];
        let enter = |places: &mut Places, place: &PlaceRequest<'_>| places.enter(place, |_| Vec::new());
        assert_eq!(enter(&mut places, &first), Entry::free(1, Vec::new()));
        assert_eq!(enter(&mut places, &second), Entry::full(1, Vec::new()));
        places.leave(b"key", second.permit());
        assert_eq!(places.in_flight(b"key"), 1);
        for _ in 0..2 {
            places.leave(b"key", first.permit());
            assert!(places.calls.is_empty() && places.permits.is_empty());
        }
        assert!(enter(&mut places, &second).is_entered());
        assert!(enter(&mut places, &first.replacing(second.permit())).is_entered());
        assert_eq!(places.in_flight(b"key"), 1);
    }

    #[test]
    fn keys_beyond_the_capacity_count_as_one() {
        let mut places = Places::new(2);
        let entered: Vec<_> = [b"a", b"b", b"c"].map(|key| place(key, 2)).into();
        for place in &entered {
            assert!(places.enter(place, |_| Vec::new()).is_entered());
        }
        assert!(places.enter(&place(b"d", 2), |_| Vec::new()).is_entered());
        assert!(places.enter(&place(b"e", 2), |_| Vec::new()).is_full, "two of other keys are in flight");
        assert_eq!(places.in_flight(b"a"), 1);
        for place in &entered {
            places.leave(place.key(), place.permit());
        }
        assert_eq!((places.calls.len(), places.overflow, places.permits.len()), (0, 1, 1));
    }
}
