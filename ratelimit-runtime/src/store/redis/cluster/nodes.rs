//! [`Nodes`]: the nodes of a cluster, and the slots they say they serve. Several are asked, and
//! slow ones are not waited for.

use std::slice;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use redis::{Cmd, Value, cmd};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::refresh::{ASK_EVERY, Refresh};
use super::slot_map::{Master, SlotMap, SlotRange};
use crate::error::{StoreError, StoreErrorKind};
use crate::store::Health;
use crate::store::redis::batcher::{Batcher, Failure};
use crate::store::redis::errors;
use crate::store::redis::link::{Link, LinkSettings, LinkStatus, Lost, OnConnection, log_in};
use crate::store::redis::settings::epochs::Epochs;
use crate::store::redis::settings::server::TcpAddress;
use crate::store::redis::settings::slot::slot_of;

/// The most masters that are asked, and the most seeds.
const MAX_ASKED: usize = 16;
/// The time without an answer after which the next node is asked as well: a fifth of the timeout
/// that callers usually have.
const STAGGER: Duration = Duration::from_millis(20);

/// The time that a seed has to say its slots, once it has let the store in.
const SILENCE: Duration = Duration::from_secs(2);

/// The nodes of a cluster, for one runtime.
pub(super) struct Nodes {
    /// Addresses of some nodes.
    pub(super) seeds: Vec<TcpAddress>,
    /// The settings of each link, with login and TLS of all nodes.
    pub(super) link: LinkSettings,
    /// Voids known answers about the slots of a master that has lost a connection; `None` without
    /// scripts, where a suffix moves stored keys to other slots.
    pub(super) epochs: Option<Epochs>,
    pub(super) runtime: Handle,
    pub(super) map: Mutex<SlotMap>,
    pub(super) refresh: Refresh,
}

impl Nodes {
    /// The locked map, to be held briefly and across no `.await`.
    pub(super) fn map(&self) -> MutexGuard<'_, SlotMap> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The batcher of a master, whose link the first call starts.
    pub(super) fn batcher(self: &Arc<Self>, master: &Master) -> Arc<Batcher> {
        let batcher = master.batcher.get_or_init(|| {
            let mut settings = LinkSettings {
                server: Arc::new(self.link.server.at(&master.address)),
                ..self.link.clone()
            };
            if let Some(epochs) = &self.epochs {
                settings.reconnected = self.reconnected_to(&master.address, epochs);
            }
            let link = Arc::new(Link::start(settings, &self.runtime));
            let away = refresh_while_away(Arc::downgrade(self), Arc::downgrade(&link));
            self.runtime.spawn(away);
            Batcher::start(link, &self.runtime, slot_of)
        });
        Arc::clone(batcher)
    }

    /// Voids known answers about the slots of this master, whenever it is connected to again.
    fn reconnected_to(self: &Arc<Self>, at: &TcpAddress, epochs: &Epochs) -> OnConnection {
        let (nodes, at, epochs) = (Arc::downgrade(self), at.clone(), epochs.clone());
        Arc::new(move || {
            let slots = nodes.upgrade().map(|nodes| nodes.map().slots_of(&at));
            epochs.begin_of(slots.unwrap_or_default());
        })
    }

    /// Makes the node at this address the master of the slot, and returns it. A node that is new,
    /// or that no list of all slots has named yet, may have taken the slot over.
    pub(super) fn moved(self: &Arc<Self>, slot: u16, to: TcpAddress) -> Arc<Master> {
        let master = self.map().moved(slot, to);
        if master.batcher.get().is_none() || !master.is_listed.load(Relaxed) {
            self.taken_over(&[(slot.into(), Arc::clone(&master))]);
        }
        master
    }

    /// Voids known answers about slots that masters have taken over, perhaps without the last
    /// writes, and connects to these masters before a call does.
    fn taken_over(self: &Arc<Self>, slots: &[(usize, Arc<Master>)]) {
        for (_, master) in slots {
            self.batcher(master);
        }
        match &self.epochs {
            _ if slots.is_empty() => {}
            Some(epochs) => epochs.begin_of(slots.iter().map(|(slot, _)| *slot)),
            None => (self.link.reconnected)(),
        }
    }

    /// Asks for the slots again, by a task, unless one is about to.
    pub(super) fn refresh(self: &Arc<Self>) {
        self.refresh.begin(|at| {
            let nodes = Arc::clone(self);
            let ask = async move { nodes.refresh.ask(at, nodes.ask_for_slots()).await };
            self.runtime.spawn(ask)
        });
    }

    /// [`refresh`](Self::refresh)es, and returns the last [outcome](Refresh::outcome).
    pub(super) async fn refreshed(self: &Arc<Self>) -> Result<(), StoreError> {
        self.refresh.outcome(|| self.refresh()).await
    }

    /// Asks for the slots, and replaces the map by the first answer that names any.
    ///
    /// # Errors
    ///
    /// If no answer does: the first `Misconfigured`, else the last error.
    pub(super) async fn ask_for_slots(self: &Arc<Self>) -> Result<(), StoreError> {
        let mut asked = JoinSet::new();
        // Those that are known to serve, in an order that differs between processes; then the
        // seeds.
        let serving = self.map().serving();
        let serving = serving
            .into_iter()
            .filter(|master| master.health() == Health::Up)
            .take(MAX_ASKED)
            .map(|master| (master.address.clone(), master.batcher.get().cloned()));
        let seeds = self
            .seeds
            .iter()
            .take(MAX_ASKED)
            .map(|seed| (seed.clone(), None));
        for ((at, batcher), turn) in serving.chain(seeds).zip(0..) {
            let nodes = Arc::clone(self);
            asked.spawn(async move {
                if turn > 0 {
                    tokio::time::sleep(STAGGER * turn).await;
                }
                let command = cmd("CLUSTER").arg("SLOTS").take();
                let reply = if let Some(batcher) = batcher {
                    ask(&batcher, &command).await?
                } else {
                    // Over a connection of its own: a seed may be a replica.
                    let connection = log_in(&Arc::new(nodes.link.server.at(&at))).await?;
                    let silent = |_| StoreError::unavailable("a seed of the cluster is silent");
                    let ended = |Lost| StoreError::unavailable("the connection to Redis ended");
                    let reply = connection.send(&command, Instant::now());
                    // No link watches over this connection.
                    let reply = tokio::time::timeout(SILENCE, reply).await;
                    reply.map_err(silent)?.map_err(ended)?
                };
                ranges(&reply, &at)
            });
        }
        let mut failed =
            StoreError::unavailable("no node of the Redis cluster can be asked for its slots");
        while let Some(answer) = asked.join_next().await {
            match answer {
                Ok(Ok(ranges)) => {
                    let slots = self.map().replace(ranges);
                    self.taken_over(&slots);
                    return Ok(());
                }
                Ok(Err(error)) if failed.kind() != StoreErrorKind::Misconfigured => failed = error,
                _ => {}
            }
        }
        Err(failed)
    }
}

/// Asks for the slots while a master does not serve, because another may. Callers that a known
/// answer refuses, or that wait for a slot, ask no master. Ends with the link.
async fn refresh_while_away(nodes: Weak<Nodes>, link: Weak<Link>) {
    let Some(mut changes) = link.upgrade().map(|link| link.changes()) else {
        return;
    };
    let is_away =
        |link: Arc<Link>| matches!(link.status(), LinkStatus::Slow(..) | LinkStatus::Down(_));
    // Neither is kept while it waits.
    while let Some(is_away) = link.upgrade().map(is_away) {
        if is_away {
            if let Some(nodes) = nodes.upgrade() {
                nodes.refresh();
            }
            tokio::time::sleep(ASK_EVERY).await;
        } else if changes.changed().await.is_err() {
            return;
        }
    }
}

/// The slots in the reply of the node at `at`.
fn ranges(reply: &Value, at: &TcpAddress) -> Result<Vec<SlotRange>, StoreError> {
    if let Value::ServerError(error) = reply {
        let is_no_cluster = error
            .details()
            .is_some_and(|text| text.contains("cluster support disabled"));
        return Err(if is_no_cluster {
            StoreError::misconfigured(format!(
                "Redis at {at} is not part of a cluster: write redis:// for a single server"
            ))
        } else {
            errors::from_server(error)
        });
    }
    match SlotRange::all_of(reply, &at.host) {
        Some(ranges) if ranges.is_empty() => Err(StoreError::unavailable(format!(
            "Redis at {at} knows of no slots that a node serves"
        ))),
        Some(ranges) => Ok(ranges),
        None => Err(errors::unexpected_reply()),
    }
}

/// Sends a command that changes nothing. An error of the server is returned as a value.
pub(super) async fn ask(batcher: &Batcher, command: &Cmd) -> Result<Value, StoreError> {
    match batcher.send(slice::from_ref(command), false).await {
        Ok(reply) => Ok(reply),
        Err(Failure::Server(error)) => Ok(Value::ServerError(error)),
        Err(Failure::Other(error)) => Err(error),
    }
}
