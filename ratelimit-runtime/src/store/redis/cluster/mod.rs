//! [`Cluster`]: a Redis Cluster for one runtime: which master a call goes to.
//!
//! Each master has a link and a batcher of its own, made when a key of its slots is first asked
//! for; replicas are never asked. The `slot_map` is changed slot by slot when a node says that one
//! has moved, and replaced by the answer of a node about all slots, which `refresh` asks for when a
//! node redirects or fails.

mod redirect;
mod refresh;
mod slot;
mod slot_map;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redis::{cmd, from_redis_value_ref};
use tokio::runtime::Handle;
use tokio::sync::watch;

use self::redirect::Redirect;
use self::refresh::Refresh;
use self::slot_map::{Master, SlotMap};
use super::batcher::{Batcher, Failure};
use super::errors;
use super::link::{Link, LinkSettings, Upstream};
use super::settings::server::{Server, TcpAddress};
use crate::error::{StoreError, StoreErrorKind};
use crate::real_time;
use crate::store::Health;

pub(crate) use self::slot::slot_of;

/// How often a call is sent on to another node before it waits.
const MAX_REDIRECTS: u32 = 4;
/// How long a call whose keys are being moved waits before it is sent again, each time: 35 ms in
/// all.
const PAUSES: [Duration; 3] = [
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(20),
];
/// How often masters are asked whether they serve while a caller waits for that.
const ASK_AGAIN: Duration = Duration::from_millis(20);
/// How long a master may take to connect, and to say whether it serves, before the slots are asked
/// for again.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

const UNSERVED: &str = "no node of the Redis cluster serves the slot of this key";

/// A Redis Cluster, for one runtime. When it is dropped, its links end.
pub(crate) struct Cluster {
    /// Some of the nodes.
    seeds: Vec<TcpAddress>,
    /// Login and TLS of all nodes.
    template: Server,
    link: LinkSettings,
    runtime: Handle,
    map: Mutex<SlotMap>,
    /// What came of asking for the slots last; `None` until the first outcome.
    outcome: watch::Sender<Option<Result<(), StoreError>>>,
    refresh: Mutex<Option<Refresh>>,
}

impl Cluster {
    /// Connects to nothing yet.
    pub(crate) fn new(
        seeds: Vec<TcpAddress>,
        template: Server,
        link: LinkSettings,
        runtime: &Handle,
    ) -> Arc<Self> {
        let (map, outcome) = (Mutex::new(SlotMap::empty()), watch::Sender::new(None));
        Arc::new(Self {
            seeds,
            template,
            link,
            runtime: runtime.clone(),
            map,
            outcome,
            refresh: Mutex::default(),
        })
    }

    /// Held for a moment, and over no wait.
    fn map(&self) -> MutexGuard<'_, SlotMap> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The batcher of a master, whose link connects when this is first called.
    fn batcher(&self, master: &Master) -> Arc<Batcher> {
        let batcher = master.batcher.get_or_init(|| {
            let upstream = Upstream::Server(Arc::new(self.template.at(&master.address)));
            let link = Link::start(
                LinkSettings {
                    upstream,
                    ..self.link.clone()
                },
                &self.runtime,
            );
            Batcher::start(Arc::new(link), &self.runtime, slot_of)
        });
        Arc::clone(batcher)
    }

    /// Runs one operation about keys of a slot: `ask` gets the batcher of the slot's master, and
    /// whether an `ASKING` is to go first. It is called again where a node redirects the operation
    /// or cannot carry it out now, and never once it may have been carried out.
    ///
    /// # Errors
    ///
    /// `Unavailable` if no node carries it out, those of the server, and those of `ask`.
    pub(crate) async fn at<T, F>(
        self: &Arc<Self>,
        slot: u16,
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
            let error = match ask(self.batcher(&master), asking).await {
                Ok(answer) => return Ok(answer),
                Err(Failure::Server(error)) => error,
                Err(Failure::Other(error)) => return Err(self.failed(error).await),
            };
            let redirect = Redirect::of(&error, slot, &master.address.host);
            if !matches!(redirect, Some(Redirect::Ask(_)) | None) {
                self.refresh();
            }
            let may_follow = redirects.next().is_some();
            (master, asking) = match redirect {
                None => return Err(self.failed(errors::from_server(&error)).await),
                Some(Redirect::Moved(to)) if may_follow => (self.map().moved(slot, to), false),
                Some(Redirect::Ask(to)) if may_follow => (self.map().master(to), true),
                // The nodes name each other until they agree on who has the slot.
                Some(_) => {
                    redirects = 0..MAX_REDIRECTS;
                    let is_in_time = |pause: &&Duration| {
                        until.is_none_or(|until| Instant::now() + **pause * 2 <= until)
                    };
                    let moving = || StoreError::unavailable("the Redis cluster is moving this key");
                    real_time::sleep(*pauses.next().filter(is_in_time).ok_or_else(moving)?).await;
                    (self.owner(slot).await?, false)
                }
            };
        }
    }

    /// The answer for a node that does not carry a call out and names no other. Where the node is
    /// away, or a replica, another one may serve its slots by now.
    async fn failed(self: &Arc<Self>, error: StoreError) -> StoreError {
        if error.kind() == StoreErrorKind::Unavailable {
            let _ = self.refreshed().await;
        }
        error
    }

    /// The master of a slot. Waits for the first map while no attempt to get it has failed.
    async fn owner(self: &Arc<Self>, slot: u16) -> Result<Arc<Master>, StoreError> {
        let known = || self.map().owner(slot).cloned();
        if let Some(owner) = known() {
            return Ok(owner);
        }
        let refreshed = self.refreshed().await;
        known().ok_or_else(|| {
            refreshed
                .err()
                .unwrap_or_else(|| StoreError::unavailable(UNSERVED))
        })
    }

    /// A number by which the masters of slots differ; 0 if none is known.
    pub(crate) fn number_of(&self, slot: u16) -> usize {
        self.map()
            .owner(slot)
            .map_or(0, |owner| Arc::as_ptr(owner).addr())
    }

    /// How well the master of a slot serves.
    pub(crate) fn health(&self, slot: u16) -> Health {
        self.map()
            .owner(slot)
            .map_or(Health::Down, |owner| owner.health())
    }

    /// Returns once a slot has a master that serves; without a slot, once all have.
    ///
    /// # Errors
    ///
    /// `Misconfigured`: then waiting is vain.
    pub(crate) async fn ready(self: &Arc<Self>, slot: Option<u16>) -> Result<(), StoreError> {
        loop {
            match self.serves(slot).await {
                Err(error) if error.kind() != StoreErrorKind::Misconfigured => {
                    real_time::sleep(ASK_AGAIN).await;
                }
                served => return served,
            }
        }
    }

    async fn serves(self: &Arc<Self>, slot: Option<u16>) -> Result<(), StoreError> {
        let masters = if let Some(slot) = slot {
            vec![self.owner(slot).await?]
        } else {
            if !self.map().is_whole() {
                self.refreshed().await?;
            }
            self.all()?
        };
        for master in masters {
            let batcher = self.batcher(&master);
            let serves = async {
                // A node that has become a replica is waited for: another one takes its slots.
                batcher.link.connected().await?;
                // An error says nothing.
                let info = refresh::ask(&batcher, &cmd("CLUSTER").arg("INFO").take()).await?;
                match from_redis_value_ref::<String>(&info) {
                    Ok(info) if info.contains("cluster_state:fail") => {
                        Err(StoreError::unavailable("the Redis cluster is down"))
                    }
                    _ => Ok(()),
                }
            };
            let serves = real_time::timeout(ANSWER_TIMEOUT, serves).await;
            let silent = |_| {
                Err(StoreError::unavailable(
                    "a node of the Redis cluster does not answer",
                ))
            };
            serves
                .unwrap_or_else(silent)
                .inspect_err(|_| self.refresh())?;
        }
        Ok(())
    }

    /// All masters.
    fn all(&self) -> Result<Vec<Arc<Master>>, StoreError> {
        let map = self.map();
        if map.is_whole() {
            return Ok(map.masters().cloned().collect());
        }
        Err(StoreError::unavailable(
            "not every slot of the Redis cluster is served",
        ))
    }

    /// All masters, as one of the nodes names them now.
    pub(crate) async fn masters(
        self: &Arc<Self>,
    ) -> Result<Vec<(TcpAddress, Arc<Batcher>)>, StoreError> {
        self.ask_for_slots().await?;
        Ok(self
            .all()?
            .into_iter()
            .map(|master| (master.address.clone(), self.batcher(&master)))
            .collect())
    }
}
