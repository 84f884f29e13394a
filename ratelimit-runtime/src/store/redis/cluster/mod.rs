//! [`Cluster`]: a Redis Cluster for one runtime: which master a call goes to.
//!
//! Each master has a link and a batcher of its own, made when a key of its slots is first asked
//! for; replicas are never asked. The `slot_map` is changed slot by slot when a node says that one
//! has moved, and replaced by what one of the nodes answers about all slots (`discovery`), which is
//! asked for when something has changed or does not work (`refresh`).

mod discovery;
mod last_refresh;
mod node;
mod redirect;
mod refresh;
mod slot;
mod slot_map;
mod slot_ranges;
mod state;

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::Value;

use self::redirect::{DOWN, Detour, Redirect, Step, UNSERVED};
use self::slot_map::Master;
use self::state::{ClusterState, FirstMap};
use super::batcher::{Batcher, Failure};
use super::errors;
use super::link::Link;
use crate::error::{StoreError, StoreErrorKind};
use crate::real_time;
use crate::store::Health;

pub(crate) use self::node::{NodeAddress, Nodes, Reply};
pub(crate) use self::slot::{SLOTS, Slot};
pub(crate) use self::slot_map::SlotMap;

/// How long a node is not asked after it has answered again that the cluster is down.
const BACK_OFF: Duration = Duration::from_millis(100);
/// How often masters are asked whether they serve while a caller waits for that.
const ASK_AGAIN: Duration = Duration::from_millis(20);
/// How long a master may take to connect, and to say whether it serves, before the slots are asked
/// for again.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// A Redis Cluster, for one runtime. When it is dropped, its links end.
#[derive(Debug)]
pub(crate) struct Cluster {
    state: Arc<ClusterState>,
}

impl Cluster {
    /// Knows some of the nodes, and connects to nothing yet.
    pub(crate) fn new(seeds: Vec<NodeAddress>, nodes: Arc<dyn Nodes>) -> Self {
        Self { state: Arc::new(ClusterState::new(seeds, nodes)) }
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
        let mut detour = Detour::new(until);
        let (mut master, mut asking) = (self.owner(slot, until).await?, false);
        loop {
            let down_until = master.down_until();
            if down_until.is_some_and(|until| Instant::now() < until) {
                self.state.refresh();
                return Err(StoreError::unavailable(DOWN));
            }
            let unanswered = RefreshOnDrop(&self.state);
            let answer = ask(self.state.batcher(&master)?, asking).await;
            std::mem::forget(unanswered);
            let error = match answer {
                Ok(answer) => {
                    if down_until.is_some() {
                        master.set_down_until(None);
                    }
                    return Ok(answer);
                }
                Err(Failure::Server(error)) => error,
                Err(Failure::NotSent(error)) => return Err(self.failed(error).await),
                Err(Failure::Lost(error)) => return Err(self.failed(error.lost()).await),
            };
            let Some(redirect) = Redirect::of(&error, slot, &master.address.host) else {
                return Err(self.failed(errors::from_server(&error)).await);
            };
            let is_down = redirect == Redirect::Down;
            if redirect == Redirect::Unserved {
                self.state.map().unserved(slot);
            }
            if !matches!(redirect, Redirect::Ask(_)) {
                self.state.refresh();
            }
            let step = match detour.step(redirect, Instant::now()) {
                // It was down before: it is asked now and then, and not waited for.
                Ok(_) if is_down && down_until.is_some() => Err(StoreError::unavailable(DOWN)),
                step => step,
            };
            if is_down && step.is_err() {
                master.set_down_until(Some(Instant::now() + BACK_OFF));
            }
            (master, asking) = match step? {
                Step::Moved(to) => (self.state.map().moved(slot, &to), false),
                Step::Asking(to) => (self.state.map().newcomer(&to), true),
                Step::Again(pause) => {
                    real_time::sleep(pause).await;
                    (self.owner(slot, until).await?, false)
                }
            };
        }
    }

    /// What is answered for a node that does not carry a call out and names no other. Where it is
    /// away, or a replica, perhaps another one serves its slots by now.
    async fn failed(&self, error: StoreError) -> StoreError {
        if error.kind() == StoreErrorKind::Unavailable {
            self.state.refreshed().await;
        }
        error
    }

    /// The master of a slot. Waits for the first map while no attempt to get it has failed.
    async fn owner(&self, slot: Slot, until: Option<Instant>) -> Result<Arc<Master>, StoreError> {
        if let Some(owner) = self.state.owner(slot) {
            return Ok(owner);
        }
        self.known(until).await?;
        if let Some(owner) = self.state.owner(slot) {
            return Ok(owner);
        }
        self.state.refreshed().await;
        self.state.owner(slot).ok_or_else(|| StoreError::unavailable(UNSERVED))
    }

    /// Waits for the first map while no attempt to get it has failed.
    async fn known(&self, until: Option<Instant>) -> Result<(), StoreError> {
        let mut first = self.state.first_map.subscribe();
        let found = async {
            if !matches!(&*first.borrow(), FirstMap::Known) {
                self.state.refreshed().await;
            }
            let outcome = first.wait_for(|first| !matches!(first, FirstMap::Pending)).await;
            match outcome.as_deref() {
                Ok(FirstMap::Failed(error)) => Err(error.clone()),
                _ => Ok(()),
            }
        };
        let late = || StoreError::timed_out("the slots of the Redis cluster are not known yet");
        match until {
            None => found.await,
            Some(until) => real_time::timeout_at(until, found).await.unwrap_or_else(|_| Err(late())),
        }
    }

    /// How well the master of a slot serves.
    pub(crate) fn health(&self, slot: Slot) -> Health {
        let owner = self.state.owner(slot);
        owner.and_then(|owner| Some(owner.known_batcher()?.link().health())).unwrap_or(Health::Down)
    }

    /// Returns once every slot has a master, and all masters serve.
    ///
    /// # Errors
    ///
    /// `Misconfigured`: then waiting is vain.
    pub(crate) async fn ready(&self) -> Result<(), StoreError> {
        self.ready_at(None).await
    }

    /// The same for one slot and its master.
    pub(crate) async fn ready_for(&self, slot: Slot) -> Result<(), StoreError> {
        self.ready_at(Some(slot)).await
    }

    async fn ready_at(&self, slot: Option<Slot>) -> Result<(), StoreError> {
        loop {
            match self.serves(slot).await {
                Err(error) if error.kind() != StoreErrorKind::Misconfigured => real_time::sleep(ASK_AGAIN).await,
                served => return served,
            }
        }
    }

    async fn serves(&self, slot: Option<Slot>) -> Result<(), StoreError> {
        if let Some(slot) = slot {
            return self.serves_at(&*self.owner(slot, None).await?).await;
        }
        self.known(None).await?;
        let map = self.state.map().clone();
        if !map.is_whole() {
            self.state.refresh();
            return Err(StoreError::unavailable("not every slot of the Redis cluster is served"));
        }
        for master in map.masters() {
            self.serves_at(master).await?;
        }
        Ok(())
    }

    async fn serves_at(&self, master: &Master) -> Result<(), StoreError> {
        let batcher = self.state.batcher(master)?;
        let state = async {
            batcher.link().ready().await?;
            discovery::ask(&batcher, &discovery::command("INFO")).await
        };
        let silent = || StoreError::unavailable("a node of the Redis cluster does not answer");
        let state = real_time::timeout_at(Instant::now() + ANSWER_TIMEOUT, state).await;
        match state.unwrap_or_else(|_| Err(silent())) {
            Ok(state) if !is_down(&state) => Ok(()),
            state => {
                self.state.refresh();
                Err(state.err().unwrap_or_else(|| StoreError::unavailable("the Redis cluster is down")))
            }
        }
    }

    /// The map as one of the nodes answers now.
    pub(crate) async fn fresh_map(&self) -> Result<SlotMap, StoreError> {
        let ranges = discovery::slots(self.state.candidates()).await?;
        self.state.learn(&ranges);
        Ok(self.state.map().clone())
    }

    /// The link to the master at an address, if it has slots or is given some.
    pub(crate) async fn link_at(
        &self,
        address: &NodeAddress,
        until: Option<Instant>,
    ) -> Result<Option<Arc<Link>>, StoreError> {
        self.known(until).await?;
        let master = self.state.map().master(address).cloned();
        master.map(|master| Ok(Arc::clone(self.state.batcher(&master)?.link()))).transpose()
    }
}

/// Asks for the slots when a call is given up before its answer: perhaps its master is away.
struct RefreshOnDrop<'a>(&'a Arc<ClusterState>);

impl Drop for RefreshOnDrop<'_> {
    fn drop(&mut self) {
        self.0.refresh();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.state.last_refresh().end();
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
