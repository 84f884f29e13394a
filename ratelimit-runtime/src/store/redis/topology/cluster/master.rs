//! [`Master`]: a node of a cluster that serves slots, or is about to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::store::redis::connection::node::registry::ConnectionCount;
use crate::store::redis::connection::nodes::Nodes;
use crate::store::redis::connection::queue::Sharing;
use crate::store::redis::connection::resolve::Resolver;
use crate::store::redis::wire::server::Server;

/// The address of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeAddress {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl NodeAddress {
    /// The address in an answer of the node at the host `asked`. A node that does not know its own
    /// host leaves it out; `?` stands for one that is not known.
    pub(crate) fn answered_by(asked: &str, host: &str, port: u16) -> Option<Self> {
        let host = match host {
            "?" => return None,
            "" => asked,
            host => host,
        };
        Some(Self { host: host.to_owned(), port })
    }
}

pub(crate) struct Master {
    pub(crate) address: NodeAddress,
    pub(crate) server: Arc<Server>,
    pub(super) nodes: Nodes,
    since: Instant,
    /// Until when it is not asked, in milliseconds after `since`; 0 if it serves.
    down_until: AtomicU64,
}

/// How long a node is not asked after it has answered again that the cluster is down.
const BACK_OFF: Duration = Duration::from_millis(100);

impl Master {
    /// Connects to nothing yet. All nodes have the login, TLS and settings of the seeds.
    pub(crate) fn new(address: NodeAddress, seed: &Server, sharing: Sharing, connections: &ConnectionCount) -> Self {
        let server = Arc::new(seed.at(&address.host, address.port));
        let nodes = Nodes::new(Arc::clone(&server) as Resolver, sharing, connections);
        Self { address, server, nodes, since: Instant::now(), down_until: AtomicU64::new(0) }
    }

    /// Lets it not be asked for [`BACK_OFF`]: it goes on answering that the cluster is down.
    pub(super) fn back_off(&self) {
        self.down_until.store(self.now() + millis(BACK_OFF), Ordering::Relaxed);
    }

    /// Whether its last answer was that the cluster is down.
    pub(super) fn is_known_to_be_down(&self) -> bool {
        self.down_until.load(Ordering::Relaxed) != 0
    }

    /// Notes that it has carried a call out.
    pub(crate) fn serves(&self) {
        if self.is_known_to_be_down() {
            self.down_until.store(0, Ordering::Relaxed);
        }
    }

    /// Whether it is not to be asked for now.
    pub(super) fn is_backing_off(&self) -> bool {
        self.is_known_to_be_down() && self.now() < self.down_until.load(Ordering::Relaxed)
    }

    fn now(&self) -> u64 {
        millis(self.since.elapsed())
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
