//! [`Connections`]: the way to a deployment of Redis: one server, the master that Sentinel names, or the masters of a
//! cluster. Each tokio runtime has one connection to each server.
//!
//! A call goes to the server of its key: `calls` finds it, and the room `connection` has it asked.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use self::calls::Way;
use self::cluster::Topology;
use self::scan::Scan;
use super::connection::endpoint::{Endpoint, Made};
use super::connection::node::{Report, probe};
use super::connection::queue::Sharing;
use super::connection::resolve::Target;
use super::wire::server::Server;
use super::wire::slot::Slot;
use crate::error::{StoreError, StoreErrorKind};
use crate::real_time;
use crate::store::Health;

mod calls;
mod cluster;
mod deployment;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzzing;
mod scan;
mod sentinel;
mod url;

pub(crate) use self::calls::{Calls, Turn};
pub(crate) use self::deployment::Deployment;
pub(crate) use self::scan::Search;

pub(super) struct Connections {
    deployment: Deployment,
    group_commit: bool,
    way: Way,
    made: Made,
}

/// How far somebody has come who looks at all keys.
#[derive(Clone)]
pub(super) enum Walk {
    Server(Scan),
    Cluster(cluster::Walk),
}

impl Connections {
    /// Connects to nothing yet.
    pub(super) fn new(deployment: Deployment) -> Self {
        let made = Made::default();
        Self { group_commit: true, way: way(&deployment, true, &made), deployment, made }
    }

    /// Whether decisions may share calls: yes unless set. Connections that there are, are ended.
    pub(super) fn group_commit(&mut self, on: bool) {
        self.group_commit = on;
        self.start_anew();
    }

    pub(super) fn deployment(&self) -> &Deployment {
        &self.deployment
    }

    /// Changes how to connect to all servers but sentinels. Connections that there are, are ended.
    pub(super) fn configure(&mut self, change: impl Fn(&mut Server)) {
        self.deployment.configure(change);
        self.start_anew();
    }

    /// Changes how to connect to all servers.
    #[cfg(feature = "redis-tls")]
    pub(super) fn configure_all(&mut self, change: impl Fn(&mut Server)) {
        self.deployment.configure_all(change);
        self.start_anew();
    }

    fn start_anew(&mut self) {
        self.way = way(&self.deployment, self.group_commit, &self.made);
    }

    /// The slot of a key.
    pub(super) fn slot(&self, key: impl FnOnce() -> Slot) -> Slot {
        match self.way {
            Way::One(_) => Slot::default(),
            Way::Cluster(_) => key(),
        }
    }

    /// Calls for keys of a slot by a caller who waits until this moment.
    pub(super) fn calls(&self, slot: Slot, timeout_at: Option<Instant>) -> Calls<'_> {
        Calls { way: &self.way, slot, timeout_at }
    }

    pub(super) fn health(&self, slot: Slot) -> Health {
        match &self.way {
            Way::One(endpoint) => endpoint.known_node().map_or(Health::Down, |node| node.health()),
            Way::Cluster(topology) => topology.health(slot),
        }
    }

    /// How many connections there have been.
    pub(super) fn made(&self) -> u64 {
        self.made.load(Ordering::Acquire)
    }

    /// A call waited for `timeout` in vain.
    pub(super) fn overdue(&self, slot: Slot, timeout: Duration) {
        match &self.way {
            Way::One(endpoint) => {
                if let Ok(node) = endpoint.node() {
                    node.report(Report::Overdue(timeout));
                }
            }
            Way::Cluster(topology) => topology.overdue(slot, timeout),
        }
    }

    /// The keys of the next part of all, and the walk for what follows; none at the end. A walk whose connection is lost
    /// begins anew at that server.
    pub(super) async fn keys(
        &self,
        search: Search<'_>,
        walk: Option<Walk>,
    ) -> Result<(Vec<Vec<u8>>, Option<Walk>), StoreError> {
        match (&self.way, walk) {
            (Way::One(endpoint), walk) => {
                let scan = match walk {
                    Some(Walk::Server(scan)) if scan.is_open() => scan,
                    _ => Scan::begin(endpoint.node()?).await?,
                };
                scan.next(search).await.map(|(keys, next)| (keys, next.map(Walk::Server)))
            }
            (Way::Cluster(topology), walk) => {
                let walk = if let Some(Walk::Cluster(walk)) = walk { walk } else { cluster::Walk::default() };
                walk.next(topology, search).await.map(|(keys, next)| (keys, next.map(Walk::Cluster)))
            }
        }
    }

    /// Resolves once the server serves, or all of them do, or with an error that no waiting will cure.
    pub(super) async fn ready(&self) -> Result<(), StoreError> {
        self.ready_at(None).await
    }

    /// The same for the server of a slot alone.
    pub(super) async fn ready_for(&self, slot: Slot) -> Result<(), StoreError> {
        self.ready_at(Some(slot)).await
    }

    async fn ready_at(&self, slot: Option<Slot>) -> Result<(), StoreError> {
        loop {
            let said = match &self.way {
                Way::One(endpoint) => {
                    let node = endpoint.node()?;
                    node.ready().await?;
                    probe::serves(&node).await
                }
                Way::Cluster(topology) => match slot {
                    Some(slot) => topology.serves_slot(slot).await,
                    None => topology.serves().await,
                },
            };
            match said {
                Err(error) if error.kind() != StoreErrorKind::Misconfigured => {}
                said => return said,
            }
            real_time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Where calls go in a deployment.
fn way(deployment: &Deployment, group_commit: bool, made: &Made) -> Way {
    let target = match deployment {
        Deployment::Standalone(server) => Arc::clone(server) as Target,
        Deployment::Sentinel(sentinels) => Arc::clone(sentinels) as Target,
        Deployment::Cluster(seeds) => return Way::Cluster(Topology::new(seeds, group_commit, made)),
    };
    Way::One(Endpoint::new(target, if group_commit { Sharing::All } else { Sharing::None }, made))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    fn nodes(connections: &Connections) -> usize {
        match &connections.way {
            Way::One(endpoint) => endpoint.nodes(),
            Way::Cluster(_) => 0,
        }
    }

    #[test]
    fn nodes_end_with_their_runtimes() {
        // Nobody listens there.
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
