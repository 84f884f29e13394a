//! [`Nodes`] and [`Master`]: how the nodes of a cluster are reached.

use std::fmt;
use std::sync::{Arc, OnceLock};

use redis::{Cmd, Value};
use tokio::runtime::Handle;

use super::slot::slot_of;
use crate::error::StoreError;
use crate::store::Health;
use crate::store::redis::batcher::Batcher;
use crate::store::redis::link::{Link, LinkSettings, Upstream, log_in};
use crate::store::redis::settings::server::{Server, TcpAddress};

/// Reaches the nodes of a cluster, with the login, TLS and settings of its URL.
pub(super) struct Nodes {
    template: Server,
    link: LinkSettings,
    pub(super) runtime: Handle,
}

impl Nodes {
    pub(super) fn new(template: Server, link: LinkSettings, runtime: &Handle) -> Self {
        Self { template, link, runtime: runtime.clone() }
    }

    fn server(&self, at: &TcpAddress) -> Arc<Server> {
        Arc::new(self.template.at(at))
    }

    /// Sends one command over a connection of its own, to a master or a replica. An error of the
    /// server is a value as any other.
    pub(super) async fn ask(&self, at: &TcpAddress, command: &Cmd) -> Result<Value, StoreError> {
        let connection = log_in(&self.server(at)).await?;
        connection.send(command).await.map_err(|_| StoreError::unavailable("the connection to Redis ended"))
    }
}

impl fmt::Debug for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nodes").finish_non_exhaustive()
    }
}

/// A node that serves slots, or is about to. It ends, with its link, once no map names it.
#[derive(Debug)]
pub(crate) struct Master {
    pub(crate) address: TcpAddress,
    batcher: OnceLock<Arc<Batcher>>,
}

impl Master {
    /// Connects to nothing yet.
    pub(super) fn new(address: TcpAddress) -> Self {
        Self { address, batcher: OnceLock::new() }
    }

    /// Its batcher, whose link connects when this is first called.
    pub(super) fn batcher(&self, nodes: &Nodes) -> Arc<Batcher> {
        let batcher = self.batcher.get_or_init(|| {
            let settings =
                LinkSettings { upstream: Upstream::Server(nodes.server(&self.address)), ..nodes.link.clone() };
            let link = Arc::new(Link::start(settings, &nodes.runtime));
            Batcher::start(link, &nodes.runtime, slot_of)
        });
        Arc::clone(batcher)
    }

    /// Its batcher, if it has ever been asked for and its link is up.
    pub(super) fn batcher_if_up(&self) -> Option<Arc<Batcher>> {
        self.batcher.get().filter(|_| self.health() == Health::Up).cloned()
    }

    pub(super) fn health(&self) -> Health {
        self.batcher.get().map_or(Health::Down, |batcher| batcher.link().health())
    }
}
