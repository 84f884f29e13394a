//! [`Topology`]: which master serves which slot, and how that is kept up to date.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use redis::{Value, cmd};
use tokio::sync::watch;

use super::discovery;
use super::master::{Master, NodeAddress};
use super::refresh::Refreshes;
use super::refresh::task::RefreshTask;
use super::slot_map::SlotMap;
use super::state::{ClusterState, Discovery};
use crate::error::StoreError;
use crate::real_time;
use crate::store::Health;
use crate::store::redis::connection::node::registry::ConnectionCount;
use crate::store::redis::connection::node::{Report, probe};
use crate::store::redis::connection::nodes::{runtime, timers};
use crate::store::redis::connection::pulse::BEAT;
use crate::store::redis::connection::queue::Sharing;
use crate::store::redis::topology::deployment::Seeds;
use crate::store::redis::wire::slot::Slot;

/// How long a node may take to be connected, where it is asked whether it serves.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) struct Topology {
    shared: Arc<ClusterState>,
}

impl Topology {
    pub(crate) fn new(seeds: &Seeds, group_commit: bool, connections: &ConnectionCount) -> Self {
        let shared = ClusterState {
            template: seeds.template().clone(),
            seeds: seeds.servers().iter().cloned().map(Arc::new).collect(),
            sharing: if group_commit { Sharing::Keys } else { Sharing::None },
            connections: Arc::clone(connections),
            map: ArcSwapOption::empty(),
            discovery: watch::Sender::new(Discovery::Pending),
            refreshes: Refreshes::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    pub(crate) fn health(&self, slot: Slot) -> Health {
        let map = self.shared.map.load();
        let owner = map.as_ref().and_then(|map| map.owner(slot));
        owner.and_then(|owner| owner.nodes.known()).map_or(Health::Down, |node| node.health())
    }

    /// Reports that a call for this slot got no answer within `timeout`.
    pub(crate) fn overdue(&self, slot: Slot, timeout: Duration) {
        if let Some(node) = self.known_owner(slot).and_then(|owner| owner.nodes.known()) {
            node.report(Report::Overdue(timeout));
        }
        self.refresh();
    }

    /// Ends the connection to the master of a slot.
    pub(crate) fn end(&self, slot: Slot, error: &StoreError) {
        if let Some(node) = self.known_owner(slot).and_then(|owner| owner.nodes.known()) {
            node.end(error);
        }
    }

    fn known_owner(&self, slot: Slot) -> Option<Arc<Master>> {
        self.shared.map.load().as_ref()?.owner(slot).cloned()
    }

    /// The master of a slot. Waits for the first map while no attempt to get it has failed.
    pub(super) async fn owner(&self, slot: Slot) -> Result<Arc<Master>, StoreError> {
        let owner = match self.shared.map.load().as_ref() {
            Some(map) => map.owner(slot).cloned(),
            None => self.map().await?.owner(slot).cloned(),
        };
        if let Some(owner) = owner {
            return Ok(owner);
        }
        self.refreshed().await;
        let unserved = || StoreError::unavailable("no node of the Redis cluster serves the slot of this key");
        self.known_owner(slot).ok_or_else(unserved)
    }

    /// Whether every slot has a master, and all of them serve.
    pub(crate) async fn serves(&self) -> Result<(), StoreError> {
        let map = self.map().await?;
        if !map.is_whole() {
            self.refresh();
            return Err(StoreError::unavailable("not every slot of the Redis cluster is served"));
        }
        for master in map.masters() {
            self.serves_at(master).await?;
        }
        Ok(())
    }

    /// Whether a slot has a master, and that serves.
    pub(crate) async fn serves_slot(&self, slot: Slot) -> Result<(), StoreError> {
        let master = self.owner(slot).await?;
        self.serves_at(&master).await
    }

    async fn serves_at(&self, master: &Master) -> Result<(), StoreError> {
        let node = master.nodes.current()?;
        let mut info = cmd("CLUSTER");
        info.arg("INFO");
        let state = match real_time::timeout_at(Instant::now() + CONNECT_TIMEOUT, node.ready()).await {
            Ok(Ok(())) => probe::ask(&node, &info).await,
            Ok(Err(error)) => Err(error),
            Err(_) => Err(StoreError::unavailable("a node of the Redis cluster does not answer")),
        };
        if state.inspect_err(|_| self.refresh()).map(|state| is_down(&state))? {
            return Err(StoreError::unavailable("the Redis cluster is down"));
        }
        Ok(())
    }

    /// The map. Waits for the first one while no attempt to get it has failed.
    async fn map(&self) -> Result<Arc<SlotMap>, StoreError> {
        if let Some(map) = self.shared.map.load_full() {
            return Ok(map);
        }
        runtime().and_then(|_| timers())?;
        self.refreshed().await;
        let mut discovery = self.shared.discovery.subscribe();
        loop {
            if let Some(map) = self.shared.map.load_full() {
                return Ok(map);
            }
            if let Discovery::Failed(error) = &*discovery.borrow_and_update() {
                return Err(error.clone());
            }
            // The runtime that asks may not be driven any more.
            tokio::select! {
                biased;
                _ = discovery.changed() => {}
                () = real_time::sleep(BEAT) => {}
            }
            self.refresh();
        }
    }

    /// Asks for the slots, unless a task does. Waits for a task that this runtime does not drive.
    pub(super) async fn refreshed(&self) {
        self.refresh();
        if let Some(refresh) = self.shared.refreshes.of_this_runtime() {
            refresh.pulse.catch_up().await;
        }
    }

    /// The master at an address, if it has slots or is given some.
    pub(super) async fn known_master(&self, address: &NodeAddress) -> Result<Option<Arc<Master>>, StoreError> {
        Ok(self.map().await?.master(address))
    }

    /// The map as one of the nodes answers now.
    pub(super) async fn fresh_map(&self) -> Result<Arc<SlotMap>, StoreError> {
        runtime().and_then(|_| timers())?;
        let ranges = discovery::slots(self.shared.candidates()).await?;
        self.shared.learn(&ranges);
        self.map().await
    }

    /// Asks for the slots, unless a task does that gets its turns. Waits for a while after the last
    /// time.
    pub(super) fn refresh(&self) {
        let Ok(runtime) = runtime() else { return };
        if timers().is_err() {
            return;
        }
        if let Some(refresh) = self.shared.refreshes.begin(runtime.id()) {
            runtime.spawn(RefreshTask { shared: Arc::downgrade(&self.shared), refresh }.run());
        }
    }

    /// Notes that the node at this address serves the slot, as another one answers.
    pub(super) fn moved(&self, slot: Slot, to: &NodeAddress) -> Option<Arc<Master>> {
        let shared = &self.shared;
        shared.map.rcu(|map| {
            let map = map.as_ref()?;
            if map.owner(slot).is_some_and(|owner| owner.address == *to) {
                return Some(Arc::clone(map));
            }
            let master = map.master(to).unwrap_or_else(|| shared.master(to));
            Some(Arc::new(map.with(slot, Some(&master))))
        });
        self.refresh();
        shared.map.load().as_ref()?.owner(slot).cloned()
    }

    /// Notes that no node serves the slot, as its master answers.
    pub(super) fn unserved(&self, slot: Slot) {
        self.shared.map.rcu(|map| {
            let map = map.as_ref()?;
            if map.owner(slot).is_none() { Some(Arc::clone(map)) } else { Some(Arc::new(map.with(slot, None))) }
        });
        self.refresh();
    }

    /// The node at this address, to be asked for keys that are moving there.
    pub(super) fn newcomer(&self, at: &NodeAddress) -> Option<Arc<Master>> {
        let shared = &self.shared;
        shared.map.rcu(|map| {
            let map = map.as_ref()?;
            if map.master(at).is_some() {
                return Some(Arc::clone(map));
            }
            Some(Arc::new(map.with_newcomer(&shared.master(at))))
        });
        shared.map.load().as_ref()?.master(at)
    }
}

/// Whether this is a reply to `CLUSTER INFO` by a node that serves nothing. An error says nothing.
fn is_down(info: &Value) -> bool {
    let is_fail = |info: &[u8]| info.windows(18).any(|text| text == b"cluster_state:fail");
    match info {
        Value::BulkString(info) => is_fail(info),
        Value::VerbatimString { text, .. } => is_fail(text.as_bytes()),
        _ => false,
    }
}
