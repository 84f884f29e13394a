//! [`Path`]: the nodes that a call goes to in a cluster, until one of them carries it out.
//!
//! A node that redirects a call has not carried it out, so it is sent again. A call whose reply is
//! lost never is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::master::Master;
use super::redirect::Redirect;
use super::topology::Topology;
use crate::error::{StoreError, StoreErrorKind};
use crate::real_time;
use crate::store::redis::backoff::Backoff;
use crate::store::redis::connection::node::Node;
use crate::store::redis::errors;
use crate::store::redis::wire::commands::ServerResult;
use crate::store::redis::wire::slot::Slot;

/// How often a call is redirected.
const MAX_REDIRECTS: u32 = 8;
/// How often a call that no node can carry out now is sent again.
const MAX_PAUSES: usize = 3;
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

pub(crate) struct Path<'a> {
    topology: &'a Topology,
    slot: Slot,
    timeout_at: Option<Instant>,
    /// The node to ask now.
    master: Arc<Master>,
    /// Whether it is asked for a slot that another node still serves.
    is_asking: bool,
    redirects: u32,
    pauses: usize,
    backoff: Backoff,
}

impl<'a> Path<'a> {
    /// To the master of a slot.
    pub(crate) async fn to(
        topology: &'a Topology,
        slot: Slot,
        timeout_at: Option<Instant>,
    ) -> Result<Self, StoreError> {
        let master = topology.owner(slot).await?;
        let backoff = Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE);
        Ok(Self { topology, slot, timeout_at, master, is_asking: false, redirects: 0, pauses: 0, backoff })
    }

    /// The node to ask now.
    pub(crate) fn node(&self) -> Result<Arc<Node>, StoreError> {
        if self.master.is_backing_off() {
            self.topology.refresh();
            return Err(down());
        }
        self.master.nodes.current()
    }

    /// Whether every command to it follows an `ASKING`.
    pub(crate) fn is_asking(&self) -> bool {
        self.is_asking
    }

    /// The answer, unless the node redirects the call, or cannot carry it out now: then this leads
    /// to the node to ask next.
    pub(crate) async fn follow_redirect<T>(&mut self, answer: ServerResult<T>) -> Option<ServerResult<T>> {
        match &answer {
            Ok(Ok(_)) => self.master.serves(),
            Ok(Err(error)) => match Redirect::of(error, &self.master.address.host) {
                Some(redirect) => return self.follow(redirect).await.err().map(Err),
                None if errors::is_replica(error) => self.topology.refreshed().await,
                None => {}
            },
            Err(error) if error.kind() == StoreErrorKind::Unavailable => self.topology.refreshed().await,
            Err(_) => {}
        }
        Some(answer)
    }

    async fn follow(&mut self, redirect: Redirect) -> Result<(), StoreError> {
        self.redirects += 1;
        if self.redirects > MAX_REDIRECTS {
            return Err(StoreError::unavailable("the nodes of the Redis cluster send a call from one to the other"));
        }
        let to = match &redirect {
            Redirect::Moved(slot, Some(to)) => self.topology.moved(*slot, to),
            Redirect::Ask(Some(to)) => self.topology.newcomer(to),
            _ => None,
        };
        if let Some(to) = to {
            (self.master, self.is_asking) = (to, matches!(redirect, Redirect::Ask(_)));
            return Ok(());
        }
        match redirect {
            Redirect::Down => {
                let master = Arc::clone(&self.master);
                let goes_on = if master.is_known_to_be_down() { Err(down()) } else { self.pause(down).await };
                goes_on.inspect_err(|_| master.back_off())
            }
            Redirect::Unserved => {
                self.topology.unserved(self.slot);
                self.pause(|| StoreError::unavailable("no node of the Redis cluster serves the slot of this key")).await
            }
            Redirect::TryAgain | Redirect::Moved(..) | Redirect::Ask(_) => {
                self.pause(|| StoreError::unavailable("the Redis cluster is moving this key")).await
            }
        }
    }

    /// Waits a little and begins again at the master of the slot, while there is time for that.
    async fn pause(&mut self, why: impl Fn() -> StoreError) -> Result<(), StoreError> {
        self.topology.refresh();
        if self.pauses == MAX_PAUSES {
            return Err(why());
        }
        let pause = self.backoff.pause();
        let left = self.timeout_at.map(|at| at.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left < pause * 2) {
            return Err(why());
        }
        self.pauses += 1;
        real_time::sleep(pause).await;
        (self.master, self.is_asking) = (self.topology.owner(self.slot).await?, false);
        Ok(())
    }
}

fn down() -> StoreError {
    StoreError::unavailable("the Redis cluster is down: not enough of its masters can be reached")
}
