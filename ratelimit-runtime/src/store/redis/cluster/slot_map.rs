//! [`SlotMap`]: which [`Master`] serves which slot, as far as is known.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use super::node::{NodeAddress, Nodes};
use super::slot::{SLOTS, Slot};
use super::slot_ranges::SlotRange;
use crate::error::StoreError;
use crate::store::redis::batcher::Batcher;

/// How many newcomers are known at most.
const NEWCOMERS: usize = 16;

/// A node that serves slots, or is about to. It ends, with its link, once no map names it.
#[derive(Debug)]
pub(crate) struct Master {
    pub(crate) address: NodeAddress,
    batcher: OnceLock<Arc<Batcher>>,
    /// Until when it is not asked; `None` if it serves.
    down_until: Mutex<Option<Instant>>,
}

impl Master {
    /// Connects to nothing yet.
    pub(super) fn new(address: NodeAddress) -> Self {
        Self { address, batcher: OnceLock::new(), down_until: Mutex::new(None) }
    }

    /// Its batcher, whose link connects when this is first called.
    pub(super) fn batcher(&self, nodes: &dyn Nodes) -> Result<&Arc<Batcher>, StoreError> {
        if let Some(batcher) = self.batcher.get() {
            return Ok(batcher);
        }
        let batcher = nodes.master(&self.address)?;
        Ok(self.batcher.get_or_init(|| batcher))
    }

    /// Its batcher, if it has ever been asked for.
    pub(super) fn known_batcher(&self) -> Option<&Arc<Batcher>> {
        self.batcher.get()
    }

    /// Notes until when it is not to be asked, because it says that the cluster is down; `None`
    /// once it has carried out a call.
    pub(super) fn set_down_until(&self, until: Option<Instant>) {
        *self.down_until.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }

    /// Until when it is not to be asked; past or future.
    pub(super) fn down_until(&self) -> Option<Instant> {
        *self.down_until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which master serves which slot.
#[derive(Debug, Clone)]
pub(crate) struct SlotMap {
    owners: Box<[Option<Arc<Master>>]>,
    /// Nodes that slots are moving to, which others still serve: those named since the last
    /// `replace`.
    newcomers: Vec<Arc<Master>>,
}

impl SlotMap {
    /// Of a cluster of which nothing is known.
    pub(super) fn empty() -> Self {
        Self { owners: vec![None; usize::from(SLOTS)].into(), newcomers: Vec::new() }
    }

    /// Takes these ranges for all there is. Masters that were known stay the same, with their
    /// links; those without slots are dropped.
    pub(super) fn replace(&mut self, ranges: &[SlotRange]) {
        let known = self.masters().into_iter().chain(&self.newcomers);
        let mut masters: HashMap<_, _> = known.map(|master| (master.address.clone(), Arc::clone(master))).collect();
        self.owners.fill(None);
        self.newcomers.clear();
        for SlotRange { first, last, master } in ranges {
            let master = masters.entry(master.clone()).or_insert_with(|| Arc::new(Master::new(master.clone())));
            let owners = self.owners.get_mut(usize::from(*first)..=usize::from(*last));
            owners.unwrap_or_default().fill(Some(Arc::clone(master)));
        }
    }

    /// Notes that the node at this address serves the slot, and gives it.
    pub(super) fn moved(&mut self, slot: Slot, to: &NodeAddress) -> Arc<Master> {
        let owner = self.owner(slot).filter(|owner| owner.address == *to);
        let master = owner.or_else(|| self.master(to)).cloned();
        let master = master.unwrap_or_else(|| Arc::new(Master::new(to.clone())));
        self.set_owner(slot, Some(Arc::clone(&master)));
        master
    }

    /// Notes that no node serves the slot.
    pub(super) fn unserved(&mut self, slot: Slot) {
        self.set_owner(slot, None);
    }

    fn set_owner(&mut self, slot: Slot, owner: Option<Arc<Master>>) {
        if let Some(place) = self.owners.get_mut(slot.index()) {
            *place = owner;
        }
    }

    /// The node at this address, which is given slots that another one still serves.
    pub(super) fn newcomer(&mut self, at: &NodeAddress) -> Arc<Master> {
        if let Some(master) = self.master(at) {
            return Arc::clone(master);
        }
        self.newcomers.truncate(NEWCOMERS - 1);
        let master = Arc::new(Master::new(at.clone()));
        self.newcomers.insert(0, Arc::clone(&master));
        master
    }

    /// The master of a slot.
    pub(crate) fn owner(&self, slot: Slot) -> Option<&Arc<Master>> {
        self.owners.get(slot.index())?.as_ref()
    }

    /// The master at an address, newcomers included.
    pub(crate) fn master(&self, address: &NodeAddress) -> Option<&Arc<Master>> {
        self.newcomers.iter().chain(self.runs()).find(|master| master.address == *address)
    }

    /// All that have slots.
    pub(super) fn masters(&self) -> Vec<&Arc<Master>> {
        let mut seen = HashSet::new();
        self.runs().filter(|master| seen.insert(&master.address)).collect()
    }

    /// Whether every slot has a master.
    pub(super) fn is_whole(&self) -> bool {
        self.owners.iter().all(Option::is_some)
    }

    /// The master of each run of slots that have the same one.
    fn runs(&self) -> impl Iterator<Item = &Arc<Master>> {
        let is_same = |one: &Option<Arc<Master>>, other: &Option<Arc<Master>>| match (one, other) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        self.owners.chunk_by(is_same).filter_map(|run| run.first()?.as_ref())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    fn at(host: &str, port: u16) -> NodeAddress {
        NodeAddress { host: host.to_owned(), port }
    }

    fn range(first: u16, last: u16, master: NodeAddress) -> SlotRange {
        SlotRange { first, last, master }
    }

    fn slot(number: u16) -> Slot {
        Slot::numbered(number).unwrap()
    }

    fn map(ranges: &[SlotRange]) -> SlotMap {
        let mut map = SlotMap::empty();
        map.replace(ranges);
        map
    }

    fn owner(map: &SlotMap, number: u16) -> Option<String> {
        map.owner(slot(number)).map(|master| master.address.to_string())
    }

    #[test]
    fn masters_that_stay_are_kept_and_the_others_dropped() {
        let mut map = map(&[range(0, 8_191, at("a", 1)), range(8_192, 16_383, at("b", 1))]);
        assert!(map.is_whole());
        assert_eq!((owner(&map, 8_191), owner(&map, 8_192)), (Some("a:1".into()), Some("b:1".into())));
        let (a, b) = (Arc::downgrade(map.owner(slot(0)).unwrap()), Arc::clone(map.master(&at("b", 1)).unwrap()));
        map.replace(&[range(0, 8_191, at("c", 1)), range(8_192, 16_382, at("b", 1))]);
        assert!(!map.is_whole());
        assert_eq!((owner(&map, 0), owner(&map, 16_383)), (Some("c:1".into()), None));
        assert!(Arc::ptr_eq(&b, map.owner(slot(9_000)).unwrap()));
        assert!(a.upgrade().is_none() && map.master(&at("a", 1)).is_none());
        assert_eq!(map.masters().len(), 2);
    }

    #[test]
    fn one_slot_is_corrected() {
        let mut map = map(&[range(0, 0, at("a", 1)), range(1, 16_383, at("b", 1))]);
        let a = Arc::downgrade(map.owner(slot(0)).unwrap());
        let b = map.moved(slot(0), &at("b", 1));
        assert!(Arc::ptr_eq(&b, map.owner(slot(16_383)).unwrap()), "the one that is known");
        assert!(a.upgrade().is_none(), "without slots it ends at once");
        map.moved(slot(7), &at("c", 2));
        assert_eq!((owner(&map, 6), owner(&map, 7)), (Some("b:1".into()), Some("c:2".into())));
        map.unserved(slot(7));
        assert_eq!((owner(&map, 7), map.is_whole()), (None, false));
        assert_eq!(owner(&map, 8), Some("b:1".into()));
    }

    #[test]
    fn newcomers_are_known_until_they_have_slots() {
        let mut map = map(&[range(0, 16_383, at("a", 1))]);
        let b = map.newcomer(&at("b", 1));
        assert!(Arc::ptr_eq(&b, &map.newcomer(&at("b", 1))));
        assert_eq!(map.masters().len(), 1);
        assert!(Arc::ptr_eq(&b, &map.moved(slot(3), &at("b", 1))));
        map.replace(&[range(0, 2, at("a", 1)), range(3, 3, at("b", 1)), range(4, 16_383, at("a", 1))]);
        assert!(Arc::ptr_eq(&b, map.owner(slot(3)).unwrap()));
        assert_eq!((map.masters().len(), map.newcomers.len()), (2, 0), "each once");
        for port in 1..100 {
            map.newcomer(&at("x", port));
        }
        assert_eq!(map.newcomers.len(), NEWCOMERS);
    }
}
