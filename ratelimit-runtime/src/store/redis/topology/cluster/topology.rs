//! [`Topology`]: which master serves which slot, and how that is kept up to date.

use std::hash::{BuildHasher as _, RandomState};
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use redis::{Value, cmd};
use tokio::sync::watch;

use super::discovery::{self, Candidate};
use super::master::{Address, Master};
use super::refreshes::{Refresh, Refreshes};
use super::slot_map::{Range, SlotMap};
use crate::error::StoreError;
use crate::store::Health;
use crate::store::redis::connection::endpoint::{Made, runtime, timers};
use crate::store::redis::connection::node::Report;
use crate::store::redis::connection::node::probe;
use crate::store::redis::connection::pulse::BEAT;
use crate::store::redis::connection::queue::Sharing;
use crate::store::redis::topology::deployment::Seeds;
use crate::store::redis::wire::server::Server;
use crate::store::redis::wire::slot::Slot;
use crate::{observe, real_time};

/// After this long without an answer, nobody waits for the first one any more, nor for a node to be connected.
const HANGING: Duration = Duration::from_secs(1);
/// After that and this long, all of them are asked anew.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many nodes are asked for the slots, at most.
const ASKED: usize = 16;

pub(crate) struct Topology {
    shared: Arc<Shared>,
}

struct Shared {
    /// Login, TLS and settings of all nodes.
    any: Server,
    seeds: Vec<Arc<Server>>,
    sharing: Sharing,
    made: Made,
    map: ArcSwapOption<SlotMap>,
    /// Whether the first map can be hoped for.
    found: watch::Sender<Found>,
    refreshes: Refreshes,
}

#[derive(Debug, Clone)]
enum Found {
    Not,
    Failed(StoreError),
    Yes,
}

impl Topology {
    pub(crate) fn new(seeds: &Seeds, group_commit: bool, made: &Made) -> Self {
        let shared = Shared {
            any: seeds.any().clone(),
            seeds: seeds.servers().iter().cloned().map(Arc::new).collect(),
            sharing: if group_commit { Sharing::Keys } else { Sharing::None },
            made: Arc::clone(made),
            map: ArcSwapOption::empty(),
            found: watch::Sender::new(Found::Not),
            refreshes: Refreshes::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// How well the master of a slot is.
    pub(crate) fn health(&self, slot: Slot) -> Health {
        let map = self.shared.map.load();
        let owner = map.as_ref().and_then(|map| map.owner(slot));
        owner.and_then(|owner| owner.endpoint.known_node()).map_or(Health::Down, |node| node.health())
    }

    /// A call for this slot waited for `timeout` in vain.
    pub(crate) fn overdue(&self, slot: Slot, timeout: Duration) {
        if let Some(node) = self.known_owner(slot).and_then(|owner| owner.endpoint.known_node()) {
            node.report(Report::Overdue(timeout));
        }
        self.refresh();
    }

    /// Ends the connection to the master of a slot.
    pub(crate) fn end(&self, slot: Slot, error: &StoreError) {
        if let Some(node) = self.known_owner(slot).and_then(|owner| owner.endpoint.known_node()) {
            node.end(error);
        }
    }

    fn known_owner(&self, slot: Slot) -> Option<Arc<Master>> {
        self.shared.map.load().as_ref()?.owner(slot).cloned()
    }

    /// The master of a slot; waits for the first map while that can be hoped for.
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
        let node = master.endpoint.node()?;
        let mut state = cmd("CLUSTER");
        state.arg("INFO");
        let said = match real_time::timeout_at(Instant::now() + HANGING, node.ready()).await {
            Ok(Ok(())) => probe::ask(&node, &state).await,
            Ok(Err(error)) => Err(error),
            Err(_) => Err(StoreError::unavailable("a node of the Redis cluster does not answer")),
        };
        if said.inspect_err(|_| self.refresh()).map(|said| says_that_it_is_down(&said))? {
            return Err(StoreError::unavailable("the Redis cluster is down"));
        }
        Ok(())
    }

    /// The map; waits for the first one while that can be hoped for.
    async fn map(&self) -> Result<Arc<SlotMap>, StoreError> {
        if let Some(map) = self.shared.map.load_full() {
            return Ok(map);
        }
        runtime().and_then(|_| timers())?;
        self.refreshed().await;
        let mut found = self.shared.found.subscribe();
        loop {
            if let Some(map) = self.shared.map.load_full() {
                return Ok(map);
            }
            if let Found::Failed(error) = &*found.borrow_and_update() {
                return Err(error.clone());
            }
            // The runtime that asks may not be driven any more.
            tokio::select! {
                biased;
                _ = found.changed() => {}
                () = real_time::sleep(BEAT) => {}
            }
            self.refresh();
        }
    }

    /// Asks for the slots, unless a task does; waits for one that this runtime does not drive.
    pub(super) async fn refreshed(&self) {
        self.refresh();
        if let Some(refresh) = self.shared.refreshes.of_this_runtime() {
            refresh.pulse.catch_up().await;
        }
    }

    /// The map as one of the nodes says now.
    pub(super) async fn fresh_map(&self) -> Result<Arc<SlotMap>, StoreError> {
        runtime().and_then(|_| timers())?;
        let ranges = discovery::slots(self.shared.candidates()).await?;
        self.shared.learn(&ranges);
        self.map().await
    }

    /// Asks for the slots, unless a task does that gets its turns; a while after the last time.
    pub(super) fn refresh(&self) {
        let Ok(runtime) = runtime() else { return };
        if timers().is_err() {
            return;
        }
        if let Some(refresh) = self.shared.refreshes.begin(runtime.id()) {
            runtime.spawn(Refreshing { shared: Arc::downgrade(&self.shared), refresh }.run());
        }
    }

    /// The slot is served by whoever is at this address, as one of the nodes says.
    pub(super) fn moved(&self, slot: Slot, to: &Address) -> Option<Arc<Master>> {
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

    /// Nobody serves the slot, as its master says.
    pub(super) fn unserved(&self, slot: Slot) {
        self.shared.map.rcu(|map| {
            let map = map.as_ref()?;
            if map.owner(slot).is_none() { Some(Arc::clone(map)) } else { Some(Arc::new(map.with(slot, None))) }
        });
        self.refresh();
    }

    /// Whoever is at this address, to be asked for what is moving there.
    pub(super) fn newcomer(&self, at: &Address) -> Option<Arc<Master>> {
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

impl Shared {
    fn master(&self, address: &Address) -> Arc<Master> {
        Arc::new(Master::new(address.clone(), &self.any, self.sharing, &self.made))
    }

    fn learn(&self, ranges: &[Range]) {
        self.map.rcu(|map| Some(Arc::new(SlotMap::of(ranges, map.as_deref(), |at| self.master(at)))));
        self.found.send_replace(Found::Yes);
    }

    /// Whoever waits for the first map waits no more.
    fn failed(&self, error: StoreError) {
        if self.map.load().is_none() {
            self.found.send_replace(Found::Failed(error));
        }
    }

    /// Who can be asked: first those who are known to serve, in any order, so that nobody is asked by all; then the seeds.
    fn candidates(&self) -> Vec<Candidate> {
        let mut connected = Vec::new();
        let map = self.map.load();
        for master in map.iter().flat_map(|map| map.masters()) {
            let node = master.endpoint.known_node().filter(|node| node.health() == Health::Up);
            connected.extend(node.map(|node| Candidate::Connected(node, Arc::clone(&master.server))));
        }
        if !connected.is_empty() {
            let random = usize::try_from(RandomState::new().hash_one(0)).unwrap_or_default();
            let by = random % connected.len();
            connected.rotate_left(by);
        }
        let seeds = self.seeds.iter().take(ASKED).cloned().map(Candidate::Server);
        connected.truncate(ASKED);
        connected.into_iter().chain(seeds).collect()
    }
}

/// The task that asks for the slots. It ends with the store, and when another has taken its place.
struct Refreshing {
    shared: Weak<Shared>,
    refresh: Arc<Refresh>,
}

impl Refreshing {
    async fn run(self) {
        if let Some(pause) = self.refresh.pause
            && self.within(None, real_time::sleep(pause)).await.is_none()
        {
            return;
        }
        let Some(candidates) = self.current().map(|shared| shared.candidates()) else { return };
        let mut slots = pin!(discovery::slots(candidates));
        let silent = || StoreError::unavailable("no node of the Redis cluster answers; still trying");
        let mut said = self.within(Some(HANGING), slots.as_mut()).await;
        if said.is_none() {
            let Some(shared) = self.current() else { return };
            shared.failed(silent());
            drop(shared);
            self.refresh.pulse.progress();
            said = self.within(Some(PATIENCE), slots).await;
        }
        let Some(shared) = self.current() else { return };
        match said.unwrap_or_else(|| Err(silent())) {
            Ok(ranges) => shared.learn(&ranges),
            Err(error) => {
                observe::log::no_slots(&error);
                shared.failed(error);
            }
        }
    }

    /// The outcome of `work` within this time, counted in turns of this task: without turns, none
    /// passes.
    async fn within<T>(&self, time: Option<Duration>, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        let mut waited = Duration::ZERO;
        loop {
            self.refresh.pulse.due_in(Some(BEAT));
            tokio::select! {
                biased;
                done = work.as_mut() => return Some(done),
                () = real_time::sleep(BEAT) => waited += BEAT,
            }
            if self.current().is_none() || time.is_some_and(|time| waited >= time) {
                return None;
            }
        }
    }

    /// The store, if there is one still, and this is the task that asks.
    fn current(&self) -> Option<Arc<Shared>> {
        self.shared.upgrade().filter(|shared| shared.refreshes.is_current(&self.refresh))
    }
}

impl Drop for Refreshing {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade()
            && shared.refreshes.end(&self.refresh)
        {
            // Where the runtime has ended in the middle, callers would wait in vain.
            shared.found.send_if_modified(|found| {
                let is_open = matches!(found, Found::Not) && shared.map.load().is_none();
                if is_open {
                    *found = Found::Failed(StoreError::unavailable("asking for the slots was cut short"));
                }
                is_open
            });
        }
        self.refresh.pulse.due_in(None);
        self.refresh.pulse.progress();
    }
}

/// Whether this is a reply to `CLUSTER INFO` by a node that serves nothing. One who may not ask is not told.
fn says_that_it_is_down(info: &Value) -> bool {
    let is_down = |info: &[u8]| info.windows(18).any(|text| text == b"cluster_state:fail");
    match info {
        Value::BulkString(info) => is_down(info),
        Value::VerbatimString { text, .. } => is_down(text.as_bytes()),
        _ => false,
    }
}
