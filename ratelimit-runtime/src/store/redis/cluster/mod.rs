//! [`Cluster`]: a Redis Cluster for one runtime, and the master that a call goes to.
//!
//! Each master has a link and a batcher of its own, made when a key of its slots is first asked
//! for; no call goes to a replica. The `slot_map` is changed slot by slot when a node reports that
//! one has moved, and replaced by a node's answer about all slots, which `refresh` asks for when a
//! node redirects or fails.

mod nodes;
mod redirect;
mod refresh;
mod slot_map;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::{cmd, from_redis_value_ref};
use tokio::runtime::Handle;

use self::nodes::Nodes;
use self::redirect::Redirect;
use self::refresh::Refresh;
use self::slot_map::{Master, SlotMap};
use super::batcher::{Batcher, Failure};
use super::errors;
use super::link::LinkSettings;
use super::settings::epochs::Epochs;
use super::settings::server::TcpAddress;
use crate::error::{StoreError, StoreErrorKind};
use crate::pace::Backoff;
use crate::store::Health;

pub(crate) use super::settings::slot::slot_of;

/// The most times that a call is sent on to another node before it waits.
const MAX_REDIRECTS: u32 = 4;
/// The pauses before a call whose keys are being moved is sent again: 35 ms in all.
const PAUSES: [Duration; 3] = [
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(20),
];
/// The pause between two questions whether masters serve, while a caller waits for that; and how
/// long it becomes while settlements wait for one master.
const ASK_AGAIN: Duration = Duration::from_millis(20);
const PATIENT: Duration = Duration::from_secs(1);
/// The time that a master has to connect and answer, before the slots are asked for again.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

const UNSERVED: &str = "no node of the Redis cluster serves the slot of this key";

/// A Redis Cluster, for one runtime. Dropping it ends its links.
pub(crate) struct Cluster {
    nodes: Arc<Nodes>,
}

impl Cluster {
    /// A cluster that is not connected yet.
    pub(crate) fn new(
        seeds: Vec<TcpAddress>,
        link: LinkSettings,
        epochs: Option<Epochs>,
        runtime: &Handle,
    ) -> Self {
        let nodes = Arc::new(Nodes {
            seeds,
            link,
            epochs,
            runtime: runtime.clone(),
            map: Mutex::new(SlotMap::empty()),
            refresh: Refresh::default(),
        });
        Self { nodes }
    }

    /// Runs one operation on keys of a slot. `ask` gets the batcher of the slot's master, and
    /// `true` if an `ASKING` has to go first. It is called again if a node redirects the operation
    /// or cannot carry it out now, and never once it may have been carried out.
    ///
    /// # Errors
    ///
    /// `Unavailable` if no node carries the operation out, an error of the server, or of `ask`.
    pub(crate) async fn at<T, F>(
        &self,
        slot: u16,
        ask: impl Fn(Arc<Batcher>, bool) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        // Every step is counted, so it ends.
        let (mut redirects, mut pauses) = (0..MAX_REDIRECTS, PAUSES.iter());
        let (mut master, mut asking) = (self.owner(slot).await?, false);
        loop {
            let error = match ask(self.nodes.batcher(&master), asking).await {
                Ok(answer) => return Ok(answer),
                Err(Failure::Server(error)) => error,
                Err(Failure::Other(error)) => return Err(self.failed(error).await),
            };
            let redirect = Redirect::of(&error, slot, &master.address.host);
            if !matches!(redirect, Some(Redirect::Ask(_)) | None) {
                self.nodes.refresh();
            }
            let may_follow = redirects.next().is_some();
            (master, asking) = match redirect {
                None => return Err(self.failed(errors::from_server(&error)).await),
                Some(Redirect::Moved(to)) if may_follow => (self.nodes.moved(slot, to), false),
                Some(Redirect::Ask(to)) if may_follow => (self.nodes.map().master(to), true),
                // The nodes name each other until they agree on who has the slot.
                Some(_) => {
                    redirects = 0..MAX_REDIRECTS;
                    let moving = || StoreError::unavailable("the Redis cluster is moving this key");
                    tokio::time::sleep(*pauses.next().ok_or_else(moving)?).await;
                    (self.owner(slot).await?, false)
                }
            };
        }
    }

    /// The error of a node that does not carry a call out and names no other node. If the node is
    /// away, or a replica, asks for the slots again: another node may serve them now.
    async fn failed(&self, error: StoreError) -> StoreError {
        if error.kind() == StoreErrorKind::Unavailable {
            let _ = self.nodes.refreshed().await;
        }
        error
    }

    /// The master of a slot. Waits for the first map while no attempt to get it has failed.
    async fn owner(&self, slot: u16) -> Result<Arc<Master>, StoreError> {
        let known = || self.nodes.map().owner(slot).cloned();
        if let Some(owner) = known() {
            return Ok(owner);
        }
        let refreshed = self.nodes.refreshed().await;
        known().ok_or_else(|| {
            refreshed
                .err()
                .unwrap_or_else(|| StoreError::unavailable(UNSERVED))
        })
    }

    /// A number that differs between the masters of slots; 0 if the master is not known.
    pub(crate) fn number_of(&self, slot: u16) -> usize {
        self.nodes
            .map()
            .owner(slot)
            .map_or(0, |owner| Arc::as_ptr(owner).addr())
    }

    /// The health of a slot's master, whose link the first call starts.
    pub(crate) fn health(&self, slot: u16) -> Health {
        let owner = self.nodes.map().owner(slot).cloned();
        let Some(owner) = owner else {
            self.nodes.refresh();
            return Health::Down;
        };
        self.nodes.batcher(&owner).link().health()
    }

    /// The round trip to a slot's master, at best; zero without a connection.
    pub(crate) fn round_trip(&self, slot: u16) -> Duration {
        let owner = self.nodes.map().owner(slot).cloned();
        owner.map_or(Duration::ZERO, |owner| {
            self.nodes.batcher(&owner).link().round_trip()
        })
    }

    /// Waits until a slot has a master that serves; without a slot, until all slots have.
    ///
    /// # Errors
    ///
    /// `Misconfigured`, which waiting does not change.
    pub(crate) async fn ready(&self, slot: Option<u16>) -> Result<(), StoreError> {
        let longest = if slot.is_some() { PATIENT } else { ASK_AGAIN };
        let mut pauses = Backoff::new(ASK_AGAIN, longest);
        loop {
            let Err(error) = self.serves(slot).await else {
                return Ok(());
            };
            if let Some(error) = errors::in_vain(&error) {
                return Err(error);
            }
            tokio::time::sleep(pauses.pause()).await;
        }
    }

    async fn serves(&self, slot: Option<u16>) -> Result<(), StoreError> {
        let masters = if let Some(slot) = slot {
            vec![self.owner(slot).await?]
        } else {
            if !self.nodes.map().is_whole() {
                self.nodes.refreshed().await?;
            }
            self.all()?
        };
        for master in masters {
            let batcher = self.nodes.batcher(&master);
            let serves = async {
                // A node that has become a replica is waited for: another one takes its slots.
                batcher.link().connected().await?;
                if slot.is_some() {
                    // Thousands of settlements may wait for it, and each asks a question next.
                    return Ok(());
                }
                // An error says nothing.
                let info = nodes::ask(&batcher, &cmd("CLUSTER").arg("INFO").take()).await?;
                match from_redis_value_ref::<String>(&info) {
                    Ok(info) if info.contains("cluster_state:fail") => {
                        Err(StoreError::unavailable("the Redis cluster is down"))
                    }
                    _ => Ok(()),
                }
            };
            let serves = tokio::time::timeout(ANSWER_TIMEOUT, serves).await;
            let silent = |_| {
                Err(StoreError::unavailable(
                    "a node of the Redis cluster does not answer",
                ))
            };
            serves
                .unwrap_or_else(silent)
                .inspect_err(|_| self.nodes.refresh())?;
        }
        Ok(())
    }

    /// All masters that have slots.
    fn all(&self) -> Result<Vec<Arc<Master>>, StoreError> {
        let map = self.nodes.map();
        if map.is_whole() {
            return Ok(map.serving());
        }
        Err(StoreError::unavailable(
            "not every slot of the Redis cluster is served",
        ))
    }

    /// All masters, as one of the nodes names them now.
    pub(crate) async fn masters(&self) -> Result<Vec<(TcpAddress, Arc<Batcher>)>, StoreError> {
        self.nodes.ask_for_slots().await?;
        Ok(self
            .all()?
            .into_iter()
            .map(|master| (master.address.clone(), self.nodes.batcher(&master)))
            .collect())
    }
}
