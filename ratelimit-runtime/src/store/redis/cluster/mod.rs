//! [`Cluster`]: a Redis Cluster for one runtime: which master a call goes to.
//!
//! Each master has a link and a batcher of its own, made when a key of its slots is first asked
//! for; replicas are never asked. The `slot_map` is changed slot by slot when a node says that one
//! has moved, and replaced by what one of the nodes answers about all slots, which `refresh` asks
//! for when something has changed or does not work.

mod node;
mod redirect;
mod refresh;
mod slot;
mod slot_map;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use redis::Value;
use tokio::runtime::Handle;

use self::node::{Master, Nodes};
use self::redirect::{DOWN, Redirect, UNSERVED};
use self::refresh::Slots;
use super::batcher::{Batcher, Failure};
use super::errors;
use super::link::{Link, LinkSettings};
use super::settings::server::{Server, TcpAddress};
use crate::error::{StoreError, StoreErrorKind};
use crate::real_time;
use crate::store::Health;

pub(crate) use self::slot::{SLOTS, Slot};
pub(crate) use self::slot_map::SlotMap;

/// How often a call is sent on to another node.
const MAX_REDIRECTS: u32 = 8;
/// How long a call that no node can carry out now waits before it is sent again, each time: 35 ms
/// in all.
const PAUSES: [Duration; 3] = [Duration::from_millis(5), Duration::from_millis(10), Duration::from_millis(20)];
/// How often masters are asked whether they serve while a caller waits for that.
const ASK_AGAIN: Duration = Duration::from_millis(20);
/// How long a master may take to connect, and to say whether it serves, before the slots are asked
/// for again.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// A Redis Cluster, for one runtime. When it is dropped, its links end.
#[derive(Debug)]
pub(crate) struct Cluster {
    slots: Arc<Slots>,
}

impl Cluster {
    /// Knows some of the nodes, and connects to nothing yet. All nodes have the login and TLS of
    /// `template`, and links by these settings.
    pub(crate) fn new(seeds: Vec<TcpAddress>, template: Server, link: LinkSettings, runtime: &Handle) -> Self {
        Self { slots: Arc::new(Slots::new(seeds, Nodes::new(template, link, runtime))) }
    }

    /// Runs one operation about keys of a slot: `ask` gets the batcher of the slot's master, and
    /// whether an `ASKING` is to go first. It is called again where a node redirects the operation
    /// or cannot carry it out now, and never once it may have been carried out.
    ///
    /// # Errors
    ///
    /// `Unavailable` if no node carries it out, those of the server, and those of `ask`.
    pub(crate) async fn at<T, F>(
        &self,
        slot: Slot,
        until: Option<Instant>,
        ask: impl Fn(Arc<Batcher>, bool) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        // Every step is counted, so it ends.
        let (mut redirects, mut pauses) = (0..MAX_REDIRECTS, PAUSES.iter());
        let (mut master, mut asking) = (self.owner(slot).await?, false);
        loop {
            let error = match ask(master.batcher(&self.slots.nodes), asking).await {
                Ok(answer) => {
                    if master.is_down.load(Relaxed) {
                        master.is_down.store(false, Relaxed);
                    }
                    return Ok(answer);
                }
                Err(Failure::Server(error)) => error,
                Err(Failure::NotSent(error)) => return Err(self.failed(error).await),
                Err(Failure::Lost(error)) => return Err(self.failed(error.lost()).await),
            };
            let redirect = Redirect::of(&error, slot, &master.address.host);
            if !matches!(redirect, Some(Redirect::Ask(_)) | None) {
                self.slots.refresh();
            }
            let (why, is_down) = match redirect {
                None => return Err(self.failed(errors::from_server(&error)).await),
                Some(Redirect::Moved(_) | Redirect::Ask(_)) if redirects.next().is_none() => {
                    return Err(StoreError::unavailable("the nodes of the Redis cluster send a call in circles"));
                }
                Some(Redirect::Moved(to)) => {
                    (master, asking) = (self.slots.map().moved(slot, to), false);
                    continue;
                }
                Some(Redirect::Ask(to)) => {
                    (master, asking) = (self.slots.map().master(to), true);
                    continue;
                }
                Some(Redirect::NotNow(why)) => (why, false),
                Some(Redirect::Down) => (DOWN, true),
            };
            let is_in_time = |pause: &&Duration| until.is_none_or(|until| Instant::now() + **pause * 2 <= until);
            // A node that has been down for a while is not waited for.
            let pause = pauses.next().filter(is_in_time).filter(|_| !(is_down && master.is_down.load(Relaxed)));
            let Some(pause) = pause else {
                master.is_down.store(is_down, Relaxed);
                return Err(StoreError::unavailable(why));
            };
            real_time::sleep(*pause).await;
            (master, asking) = (self.owner(slot).await?, false);
        }
    }

    /// The answer for a node that does not carry a call out and names no other. Where the node is
    /// away, or a replica, another one may serve its slots by now.
    async fn failed(&self, error: StoreError) -> StoreError {
        if error.kind() == StoreErrorKind::Unavailable {
            let _ = self.slots.refreshed().await;
        }
        error
    }

    /// The master of a slot. Waits for the first map while no attempt to get it has failed.
    async fn owner(&self, slot: Slot) -> Result<Arc<Master>, StoreError> {
        let known = || self.slots.map().owner(slot).cloned();
        if let Some(owner) = known() {
            return Ok(owner);
        }
        let refreshed = self.slots.refreshed().await;
        known().ok_or_else(|| refreshed.err().unwrap_or_else(|| StoreError::unavailable(UNSERVED)))
    }

    /// How well the master of a slot serves.
    pub(crate) fn health(&self, slot: Slot) -> Health {
        self.slots.map().owner(slot).map_or(Health::Down, |owner| owner.health())
    }

    /// Returns once a slot has a master that serves; without a slot, once all have.
    ///
    /// # Errors
    ///
    /// `Misconfigured`: then waiting is vain.
    pub(crate) async fn ready(&self, slot: Option<Slot>) -> Result<(), StoreError> {
        loop {
            match self.serves(slot).await {
                Err(error) if error.kind() != StoreErrorKind::Misconfigured => real_time::sleep(ASK_AGAIN).await,
                served => return served,
            }
        }
    }

    async fn serves(&self, slot: Option<Slot>) -> Result<(), StoreError> {
        if let Some(slot) = slot {
            return self.serves_at(&*self.owner(slot).await?).await;
        }
        if !self.slots.map().is_whole() {
            self.slots.refreshed().await?;
        }
        let map = self.slots.map().clone();
        if !map.is_whole() {
            return Err(StoreError::unavailable("not every slot of the Redis cluster is served"));
        }
        for master in map.masters() {
            self.serves_at(master).await?;
        }
        Ok(())
    }

    async fn serves_at(&self, master: &Master) -> Result<(), StoreError> {
        let batcher = master.batcher(&self.slots.nodes);
        let state = async {
            batcher.link().ready().await?;
            refresh::ask(&batcher, &refresh::command("INFO")).await
        };
        let silent = || StoreError::unavailable("a node of the Redis cluster does not answer");
        let state = real_time::timeout_at(Instant::now() + ANSWER_TIMEOUT, state).await;
        match state.unwrap_or_else(|_| Err(silent())) {
            Ok(state) if !is_down(&state) => Ok(()),
            state => {
                self.slots.refresh();
                Err(state.err().unwrap_or_else(|| StoreError::unavailable(DOWN)))
            }
        }
    }

    /// The map as one of the nodes answers now.
    pub(crate) async fn fresh_map(&self) -> Result<SlotMap, StoreError> {
        self.slots.ask().await?;
        Ok(self.slots.map().clone())
    }

    /// The link to the master at an address, if it is known.
    pub(crate) async fn link_at(&self, address: &TcpAddress) -> Result<Option<Arc<Link>>, StoreError> {
        let known = || self.slots.map().known(address).cloned();
        let mut master = known();
        if master.is_none() {
            self.slots.refreshed().await?;
            master = known();
        }
        Ok(master.map(|master| Arc::clone(master.batcher(&self.slots.nodes).link())))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.slots.end();
    }
}

/// Whether this is a reply to `CLUSTER INFO` by a node that serves nothing. An error says nothing.
fn is_down(info: &Value) -> bool {
    let info: Option<String> = redis::from_redis_value_ref(info).ok();
    info.is_some_and(|info| info.contains("cluster_state:fail"))
}
