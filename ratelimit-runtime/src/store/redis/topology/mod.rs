//! [`Connections`]: those to a deployment of Redis: one server, the master that Sentinel names, or
//! the masters of a cluster. Each tokio runtime has one connection to each server.
//!
//! [`Calls`] are sent to the node that the `router` finds by their slot.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use self::cluster::Walk;
use self::router::Router;
use self::scan::{Scan, ScanPosition};
use super::connection::exchange::Exchange;
use super::connection::exchange::pending::PendingCharge;
use super::connection::node::registry::ConnectionCount;
use super::wire::commands::CallError;
use super::wire::server::Server;
use super::wire::slot::Slot;
use crate::error::{StoreError, StoreErrorKind};
use crate::real_time;
use crate::store::{Cursor, Health};

mod calls;
mod cluster;
mod deployment;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzzing;
mod router;
mod scan;
mod sentinel;
mod url;

pub(crate) use self::calls::Calls;
pub(crate) use self::deployment::Deployment;
pub(crate) use self::router::Destination;
pub(crate) use self::scan::Search;

/// How often servers are asked whether they serve while a caller waits for that.
const ASK_AGAIN: Duration = Duration::from_millis(20);

/// The first byte of a position: what it is one of, and in which version of these bytes.
const SERVER: u8 = 1;
const CLUSTER: u8 = 2;

pub(super) struct Connections {
    deployment: Deployment,
    server: String,
    group_commit: bool,
    router: Arc<Router>,
    count: ConnectionCount,
}

/// The same for what outlives a call. What it asks goes on while this lives.
#[derive(Clone)]
pub(super) struct SharedConnections {
    router: Arc<Router>,
    count: ConnectionCount,
}

impl SharedConnections {
    pub(super) fn slot(&self, key: &[u8]) -> Slot {
        self.router.slot(|| Slot::of(key))
    }

    /// Calls for keys of a slot, until a timeout.
    pub(super) fn calls(&self, slot: Slot, timeout_at: Option<Instant>) -> Calls<'_> {
        Calls { router: &self.router, slot, timeout_at }
    }

    /// How many connections there have been.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }
}

impl Connections {
    /// Connects to nothing yet.
    pub(super) fn new(deployment: Deployment) -> Self {
        let count = ConnectionCount::default();
        let (server, router) = (deployment.name(), Arc::new(Router::new(&deployment, true, &count)));
        Self { deployment, server, group_commit: true, router, count }
    }

    /// Whether charges may share calls: yes unless set. Ends open connections.
    pub(super) fn group_commit(&mut self, on: bool) {
        self.group_commit = on;
        self.start_anew();
    }

    pub(super) fn deployment(&self) -> &Deployment {
        &self.deployment
    }

    /// Changes how to connect to all servers but sentinels. Ends open connections.
    pub(super) fn configure(&mut self, change: impl Fn(&mut Server)) {
        self.deployment.configure(change);
        self.start_anew();
    }

    /// Changes how to connect to all servers. Ends open connections.
    #[cfg(feature = "redis-tls")]
    pub(super) fn configure_all(&mut self, change: impl Fn(&mut Server)) {
        self.deployment.configure_all(change);
        self.start_anew();
    }

    fn start_anew(&mut self) {
        self.router = Arc::new(Router::new(&self.deployment, self.group_commit, &self.count));
    }

    pub(super) fn shared(&self) -> SharedConnections {
        SharedConnections { router: Arc::clone(&self.router), count: Arc::clone(&self.count) }
    }

    /// The slot of a key, which is computed in a cluster only.
    pub(super) fn slot(&self, slot: impl FnOnce() -> Slot) -> Slot {
        self.router.slot(slot)
    }

    /// Calls for keys of a slot, until a timeout.
    pub(super) fn calls(&self, slot: Slot, timeout_at: Option<Instant>) -> Calls<'_> {
        Calls { router: &self.router, slot, timeout_at }
    }

    /// The connection that all charges of this runtime share, if there is one, it is open and the
    /// server serves.
    pub(super) fn exchange(&self) -> Option<Exchange> {
        match &*self.router {
            Router::One(nodes) => nodes.exchange(),
            Router::Cluster(_) => None,
        }
    }

    /// Why a charge that was queued on [`exchange`](Self::exchange) has no verdict. Draws
    /// conclusions from it.
    pub(super) fn no_verdict(&self, charge: &PendingCharge, why: CallError) -> StoreError {
        match &*self.router {
            Router::One(nodes) => nodes.no_answer(&Exchange::of(charge), why),
            Router::Cluster(_) => why.into_store_error(),
        }
    }

    pub(super) fn health(&self, slot: Slot) -> Health {
        self.router.health(slot)
    }

    /// The deployment's name in metrics.
    pub(super) fn server(&self) -> &str {
        &self.server
    }

    /// How many connections there have been.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Reports that a call got no answer within `timeout`.
    pub(super) fn overdue(&self, slot: Slot, timeout: Duration) {
        self.router.overdue(slot, timeout);
    }

    /// The keys of the next part of all, and the position of what follows; `None` at the end.
    /// Begins with the first part unless given a position, and with the first part of a server if
    /// that has lost its position by a restart or a fail-over.
    ///
    /// # Errors
    ///
    /// `Misconfigured` if the position is not one of such a deployment.
    pub(super) async fn keys(
        &self,
        search: Search<'_>,
        from: Option<&[u8]>,
    ) -> Result<(Vec<Vec<u8>>, Option<Vec<u8>>), StoreError> {
        let mut next = Vec::new();
        let (keys, is_last) = match &*self.router {
            Router::One(nodes) => {
                let from =
                    position(from, SERVER, |mut bytes| ScanPosition::read(&mut bytes).filter(|_| bytes.is_empty()))?;
                let scan = Scan::new(nodes.current()?, search).await?;
                let (keys, at) = scan.next(search, from).await?;
                next.push(SERVER);
                at.write(&mut next);
                (keys, at.cursor == 0)
            }
            Router::Cluster(topology) => {
                let from = position(from, CLUSTER, Walk::read)?.unwrap_or_default();
                let (keys, walk) = from.next(topology, search).await?;
                next.push(CLUSTER);
                if let Some(walk) = &walk {
                    walk.write(&mut next);
                }
                (keys, walk.is_none())
            }
        };
        Ok((keys, (!is_last).then_some(next)))
    }

    /// Waits until the server serves, or all of them do.
    ///
    /// # Errors
    ///
    /// `Misconfigured`: then waiting is vain.
    pub(super) async fn ready(&self) -> Result<(), StoreError> {
        self.ready_at(None).await
    }

    /// The same for the server of a slot alone.
    pub(super) async fn ready_for(&self, slot: Slot) -> Result<(), StoreError> {
        self.ready_at(Some(slot)).await
    }

    async fn ready_at(&self, slot: Option<Slot>) -> Result<(), StoreError> {
        loop {
            match self.router.serves(slot).await {
                Err(error) if error.kind() != StoreErrorKind::Misconfigured => {}
                served => return served,
            }
            real_time::sleep(ASK_AGAIN).await;
        }
    }
}

/// The position in these bytes, which begin with `tag`.
fn position<T>(bytes: Option<&[u8]>, tag: u8, read: impl FnOnce(&[u8]) -> Option<T>) -> Result<Option<T>, StoreError> {
    let Some(bytes) = bytes else { return Ok(None) };
    let position = bytes.split_first().filter(|(first, _)| **first == tag).and_then(|(_, rest)| read(rest));
    position.map(Some).ok_or_else(Cursor::foreign)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    fn nodes(connections: &Connections) -> usize {
        match &*connections.router {
            Router::One(nodes) => nodes.len(),
            Router::Cluster(_) => 0,
        }
    }

    #[test]
    fn nodes_end_with_their_runtimes() {
        // No server listens there.
        let connections = Connections::new(Deployment::from_url("redis://127.0.0.1:1").unwrap());
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let ping = || connections.calls(Slot::default(), None);
        let lasting = runtime();
        assert!(lasting.block_on(ping().send(&redis::cmd("PING"), |_| true)).is_err());
        for _ in 0..10 {
            let passing = runtime();
            assert!(passing.block_on(ping().send(&redis::cmd("PING"), |_| true)).is_err());
            assert_eq!(nodes(&connections), 2);
        }
        assert_eq!(nodes(&connections), 1);
    }

    #[test]
    fn a_runtime_that_lacks_something_is_said_to() {
        let connections = Connections::new(Deployment::from_url("redis://127.0.0.1:1").unwrap());
        let bare = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let timers = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        for runtime in [&bare, &timers] {
            for _ in 0..3 {
                let error = runtime
                    .block_on(connections.calls(Slot::default(), None).send(&redis::cmd("PING"), |_| true))
                    .unwrap_err();
                assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
                assert!(error.message().contains("enable_all"), "{error}");
            }
            assert_eq!(runtime.block_on(connections.ready()).unwrap_err().kind(), StoreErrorKind::Misconfigured);
        }
        drop((bare, timers));
        assert_eq!(nodes(&connections), 0);
    }
}
