//! [`NodeAddress`] and [`Nodes`]: where the nodes of a cluster are, and how they are reached.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use redis::{Cmd, Value};

use crate::error::StoreError;
use crate::store::redis::batcher::Batcher;

/// The host and the port of a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct NodeAddress {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl NodeAddress {
    /// The address in a reply of the node at the host `asked`. A node that does not know its own
    /// host leaves it out; `?` stands for one that is not known, as does the port 0.
    pub(super) fn replied_by(asked: &str, host: &str, port: u16) -> Option<Self> {
        let host = match host {
            "?" => return None,
            "" => asked,
            host => host,
        };
        (port != 0).then(|| Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for NodeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// A reply that is on its way.
pub(crate) type Reply = Pin<Box<dyn Future<Output = Result<Value, StoreError>> + Send>>;

/// How the nodes of a cluster are reached: with the login, TLS and settings of its URL.
pub(crate) trait Nodes: fmt::Debug + Send + Sync {
    /// Group commit on a new link to the master at an address.
    fn master(&self, at: &NodeAddress) -> Result<Arc<Batcher>, StoreError>;

    /// Sends one command over a connection of its own, to a master or a replica. An error of the
    /// server is a value as any other.
    fn ask(&self, at: &NodeAddress, command: Cmd) -> Reply;
}
