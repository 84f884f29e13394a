//! [`Masters`]: how the nodes of a cluster are reached.

use std::fmt;
use std::sync::Arc;

use redis::Cmd;
use tokio::runtime::Handle;

use super::settings::ClientSettings;
use crate::error::StoreError;
use crate::store::redis::batcher::Batcher;
use crate::store::redis::cluster::{NodeAddress, Nodes, Reply, Slot};
use crate::store::redis::link::{Connector, Link};
use crate::store::redis::settings::server::{Address, Server};

/// Where a node is that the URL names.
pub(super) fn address(server: &Server) -> Option<NodeAddress> {
    match server.address() {
        Address::Tcp { host, port } => Some(NodeAddress { host: host.clone(), port: *port }),
        Address::Unix(_) => None,
    }
}

/// Reaches the nodes of a cluster with the login, TLS and settings of its URL.
pub(super) struct Masters {
    template: Server,
    settings: ClientSettings,
    runtime: Handle,
}

impl Masters {
    pub(super) fn new(template: Server, settings: &ClientSettings, runtime: &Handle) -> Self {
        Self { template, settings: settings.clone(), runtime: runtime.clone() }
    }
}

impl Nodes for Masters {
    fn master(&self, at: &NodeAddress) -> Result<Arc<Batcher>, StoreError> {
        let server = self.template.at(&at.host, at.port);
        let link = Link::start(self.settings.link(Arc::new(server)), &self.runtime);
        Ok(Batcher::start(Arc::new(link), &self.runtime, |key| Slot::of(key).number()))
    }

    fn ask(&self, at: &NodeAddress, command: Cmd) -> Reply {
        let server = self.template.at(&at.host, at.port);
        Box::pin(async move {
            // It may be a replica.
            let connection = Connector::default().connect_only(&Arc::new(server)).await?;
            connection.send(&command).await.map_err(|_| StoreError::unavailable("the connection to Redis ended"))
        })
    }
}

impl fmt::Debug for Masters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Masters").finish_non_exhaustive()
    }
}
