//! [`ClusterState`]: what is known of a cluster.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::discovery::Candidate;
use super::last_refresh::LastRefresh;
use super::node::{NodeAddress, Nodes};
use super::slot::Slot;
use super::slot_map::{Master, SlotMap};
use super::slot_ranges::SlotRange;
use crate::error::StoreError;
use crate::store::Health;
use crate::store::redis::batcher::Batcher;

/// How many masters are asked for the slots, at most, and how many seeds.
const MAX_CANDIDATES: usize = 16;

#[derive(Debug)]
pub(super) struct ClusterState {
    nodes: Arc<dyn Nodes>,
    seeds: Vec<NodeAddress>,
    map: Mutex<SlotMap>,
    /// Is told of the outcome of each refresh.
    pub(super) first_map: watch::Sender<FirstMap>,
    last_refresh: Mutex<LastRefresh>,
}

/// What has come of looking for the first map.
#[derive(Debug, Clone)]
pub(super) enum FirstMap {
    Pending,
    Failed(StoreError),
    Known,
}

impl ClusterState {
    pub(super) fn new(seeds: Vec<NodeAddress>, nodes: Arc<dyn Nodes>) -> Self {
        let (map, first_map) = (Mutex::new(SlotMap::empty()), watch::Sender::new(FirstMap::Pending));
        Self { nodes, seeds, map, first_map, last_refresh: Mutex::default() }
    }

    /// Held for a moment, and over no wait.
    pub(super) fn map(&self) -> MutexGuard<'_, SlotMap> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Held for a moment, and over no wait.
    pub(super) fn last_refresh(&self) -> MutexGuard<'_, LastRefresh> {
        self.last_refresh.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn owner(&self, slot: Slot) -> Option<Arc<Master>> {
        self.map().owner(slot).cloned()
    }

    pub(super) fn batcher(&self, master: &Master) -> Result<Arc<Batcher>, StoreError> {
        master.batcher(&*self.nodes).cloned()
    }

    /// Replaces the map by what a node answered.
    pub(super) fn learn(&self, ranges: &[SlotRange]) {
        self.map().replace(ranges);
        self.first_map.send_replace(FirstMap::Known);
    }

    /// Lets no caller wait for the first map any more.
    pub(super) fn fail(&self, error: StoreError) {
        self.first_map.send_modify(|first| {
            if !matches!(first, FirstMap::Known) {
                *first = FirstMap::Failed(error);
            }
        });
    }

    /// The nodes that can be asked: first those that are known to serve, beginning anywhere, so
    /// that processes spread over them; then the seeds.
    pub(super) fn candidates(&self) -> Vec<Candidate> {
        let is_up = |batcher: &&Arc<Batcher>| batcher.link().health() == Health::Up;
        let linked = |master: &Arc<Master>| {
            let batcher = master.known_batcher().filter(is_up)?;
            Some(Candidate::Linked(master.address.clone(), Arc::clone(batcher)))
        };
        let mut all: Vec<Candidate> = self.map().masters().into_iter().filter_map(linked).collect();
        let random = usize::try_from(RandomState::new().hash_one(0) >> 33).unwrap_or_default();
        let first = random.checked_rem(all.len()).unwrap_or_default();
        all.rotate_left(first);
        all.truncate(MAX_CANDIDATES);
        let seeds = self.seeds.iter().take(MAX_CANDIDATES);
        all.extend(seeds.map(|seed| Candidate::Other(seed.clone(), Arc::clone(&self.nodes))));
        all
    }
}
