//! [`Path`]: where a call goes in a cluster, from node to node, until one of them carries it out.
//!
//! A node that sends a call elsewhere has not carried it out, so it may be asked again. A call whose reply is lost never is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::ServerError;

use super::master::Master;
use super::redirect::Redirect;
use super::topology::Topology;
use crate::error::{StoreError, StoreErrorKind};
use crate::real_time;
use crate::store::redis::connection::node::Node;
use crate::store::redis::errors;
use crate::store::redis::wire::slot::Slot;

/// How often a call is sent elsewhere.
const REDIRECTS: u32 = 8;
/// How long a call that nobody can carry out now waits before it is tried again.
const PAUSES: [Duration; 3] = [Duration::from_millis(5), Duration::from_millis(10), Duration::from_millis(20)];

pub(crate) struct Path<'a> {
    topology: &'a Topology,
    slot: Slot,
    timeout_at: Option<Instant>,
    /// Whom to ask now.
    master: Arc<Master>,
    /// Whether it is asked for what is somebody else's still.
    is_asking: bool,
    redirects: u32,
    pauses: usize,
}

impl<'a> Path<'a> {
    /// To the master of a slot.
    pub(crate) async fn to(
        topology: &'a Topology,
        slot: Slot,
        timeout_at: Option<Instant>,
    ) -> Result<Self, StoreError> {
        let master = topology.owner(slot).await?;
        Ok(Self { topology, slot, timeout_at, master, is_asking: false, redirects: 0, pauses: 0 })
    }

    /// Whom to ask now.
    pub(crate) fn node(&self) -> Result<Arc<Node>, StoreError> {
        if self.master.is_left_alone() {
            self.topology.refresh();
            return Err(down());
        }
        self.master.endpoint.node()
    }

    /// Whether every command to it follows an `ASKING`.
    pub(crate) fn is_asking(&self) -> bool {
        self.is_asking
    }

    /// Looks at what came of asking: an answer, or nothing if there is somebody else to be asked, or the same one again.
    pub(crate) async fn arrived<T>(
        &mut self,
        said: Result<Result<T, ServerError>, StoreError>,
    ) -> Option<Result<Result<T, ServerError>, StoreError>> {
        match &said {
            Ok(Ok(_)) => self.master.serves(),
            Ok(Err(error)) => match Redirect::of(error, &self.master.address.host) {
                Some(redirect) => return self.follow(redirect).await.err().map(Err),
                None if errors::is_replica(error) => self.topology.refreshed().await,
                None => {}
            },
            Err(error) if error.kind() == StoreErrorKind::Unavailable => self.topology.refreshed().await,
            Err(_) => {}
        }
        Some(said)
    }

    async fn follow(&mut self, redirect: Redirect) -> Result<(), StoreError> {
        self.redirects += 1;
        if self.redirects > REDIRECTS {
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
                let ends = if master.is_known_to_be_down() { Err(down()) } else { self.pause(down).await };
                ends.inspect_err(|_| master.leave_alone())
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

    /// Waits a little and begins anew, while there is time for that.
    async fn pause(&mut self, why: impl Fn() -> StoreError) -> Result<(), StoreError> {
        self.topology.refresh();
        let Some(pause) = PAUSES.get(self.pauses) else { return Err(why()) };
        let left = self.timeout_at.map(|at| at.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left < *pause * 2) {
            return Err(why());
        }
        self.pauses += 1;
        real_time::sleep(*pause).await;
        (self.master, self.is_asking) = (self.topology.owner(self.slot).await?, false);
        Ok(())
    }
}

fn down() -> StoreError {
    StoreError::unavailable("the Redis cluster is down: not enough of its masters can be reached")
}
