//! [`ClusterState`]: what is known of a cluster.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use tokio::sync::watch;

use super::discovery::Candidate;
use super::master::{Master, NodeAddress};
use super::refresh::Refreshes;
use super::slot_map::{Range, SlotMap};
use crate::error::StoreError;
use crate::store::Health;
use crate::store::redis::connection::node::registry::ConnectionCount;
use crate::store::redis::connection::queue::Sharing;
use crate::store::redis::wire::server::Server;

/// How many nodes are asked for the slots, at most.
const MAX_CANDIDATES: usize = 16;

pub(super) struct ClusterState {
    /// Login, TLS and settings of all nodes.
    pub(super) template: Server,
    pub(super) seeds: Vec<Arc<Server>>,
    pub(super) sharing: Sharing,
    pub(super) connections: ConnectionCount,
    pub(super) map: ArcSwapOption<SlotMap>,
    /// Of the first map.
    pub(super) discovery: watch::Sender<Discovery>,
    pub(super) refreshes: Refreshes,
}

/// What has come of looking for the first map.
#[derive(Debug, Clone)]
pub(super) enum Discovery {
    Pending,
    Failed(StoreError),
    Done,
}

impl ClusterState {
    /// The master at an address, connected to nothing yet.
    pub(super) fn master(&self, address: &NodeAddress) -> Arc<Master> {
        Arc::new(Master::new(address.clone(), &self.template, self.sharing, &self.connections))
    }

    /// Replaces the map by what a node answered.
    pub(super) fn learn(&self, ranges: &[Range]) {
        self.map.rcu(|map| Some(Arc::new(SlotMap::of(ranges, map.as_deref(), |at| self.master(at)))));
        self.discovery.send_replace(Discovery::Done);
    }

    /// Lets no caller wait for the first map any more.
    pub(super) fn fail(&self, error: StoreError) {
        if self.map.load().is_none() {
            self.discovery.send_replace(Discovery::Failed(error));
        }
    }

    /// The nodes that can be asked: first those that are known to serve, in random order, so that
    /// clients spread over them; then the seeds.
    pub(super) fn candidates(&self) -> Vec<Candidate> {
        let mut connected = Vec::new();
        let map = self.map.load();
        for master in map.iter().flat_map(|map| map.masters()) {
            let node = master.nodes.known().filter(|node| node.health() == Health::Up);
            connected.extend(node.map(|node| Candidate::Connected(node, Arc::clone(&master.server))));
        }
        if !connected.is_empty() {
            let random = usize::try_from(RandomState::new().hash_one(0)).unwrap_or_default();
            let by = random % connected.len();
            connected.rotate_left(by);
        }
        let seeds = self.seeds.iter().take(MAX_CANDIDATES).cloned().map(Candidate::Server);
        connected.truncate(MAX_CANDIDATES);
        connected.into_iter().chain(seeds).collect()
    }
}
