//! [`Master`]: a node of a cluster that serves slots, or is about to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::store::redis::connection::endpoint::{Endpoint, Made};
use crate::store::redis::connection::queue::Sharing;
use crate::store::redis::connection::resolve::Target;
use crate::store::redis::wire::server::Server;

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Address {
    /// Where a server is that another one names like this, which is at `asked` itself. A server that does not know its own
    /// name leaves it out.
    pub(crate) fn said_by(asked: &str, host: &str, port: u16) -> Option<Self> {
        let host = match host {
            "?" => return None,
            "" => asked,
            host => host,
        };
        Some(Self { host: host.to_owned(), port })
    }
}

pub(crate) struct Master {
    pub(crate) address: Address,
    pub(crate) server: Arc<Server>,
    pub(super) endpoint: Endpoint,
    since: Instant,
    /// Until when it is not asked, in milliseconds after `since`; 0 if it serves.
    down_until: AtomicU64,
}

/// How long a node is left alone that says that the cluster is down.
const DOWN: Duration = Duration::from_millis(100);

impl Master {
    /// Connects to nothing yet. All nodes have the login, TLS and settings of the seeds.
    pub(crate) fn new(address: Address, seed: &Server, sharing: Sharing, made: &Made) -> Self {
        let server = Arc::new(seed.at(&address.host, address.port));
        let endpoint = Endpoint::new(Arc::clone(&server) as Target, sharing, made);
        Self { address, server, endpoint, since: Instant::now(), down_until: AtomicU64::new(0) }
    }

    /// It goes on saying that the cluster is down.
    pub(super) fn leave_alone(&self) {
        self.down_until.store(self.now() + millis(DOWN), Ordering::Relaxed);
    }

    /// Whether the last thing it has said is that the cluster is down.
    pub(super) fn is_known_to_be_down(&self) -> bool {
        self.down_until.load(Ordering::Relaxed) != 0
    }

    /// It has carried something out.
    pub(crate) fn serves(&self) {
        if self.is_known_to_be_down() {
            self.down_until.store(0, Ordering::Relaxed);
        }
    }

    /// Whether it is left alone for now.
    pub(super) fn is_left_alone(&self) -> bool {
        self.is_known_to_be_down() && self.now() < self.down_until.load(Ordering::Relaxed)
    }

    fn now(&self) -> u64 {
        millis(self.since.elapsed())
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
