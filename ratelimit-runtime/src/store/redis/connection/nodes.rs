//! [`Nodes`]: one server to connect to, and the [`Node`] that each runtime has for it.

use std::sync::Arc;

use tokio::runtime::Handle;

use super::exchange::Exchange;
use super::node::Node;
use super::node::registry::{ConnectionCount, NodeRegistry, end_with_runtime};
use super::queue::Sharing;
use super::resolve::Resolver;
use super::supervisor;
use crate::error::StoreError;
use crate::real_time;
use crate::store::redis::wire::commands::CallError;

pub(crate) struct Nodes {
    resolver: Resolver,
    sharing: Sharing,
    registry: Arc<NodeRegistry>,
}

impl Nodes {
    /// Connects to nothing yet.
    pub(crate) fn new(resolver: Resolver, sharing: Sharing, connections: &ConnectionCount) -> Self {
        Self { resolver, sharing, registry: Arc::new(NodeRegistry::new(Arc::clone(connections))) }
    }

    /// The node of this runtime, which begins to connect if it is a new one.
    ///
    /// # Errors
    ///
    /// `Misconfigured` outside of a tokio runtime.
    pub(crate) fn current(&self) -> Result<Arc<Node>, StoreError> {
        let runtime = runtime()?;
        match self.registry.find(runtime.id()) {
            Some(node) => Ok(node),
            None => Ok(self.add_node(&runtime)),
        }
    }

    /// The node of this runtime, if there is one.
    pub(crate) fn known(&self) -> Option<Arc<Node>> {
        self.registry.find(Handle::try_current().ok()?.id())
    }

    /// The connection of this runtime, if there is one and the server serves.
    pub(crate) fn exchange(&self) -> Option<Exchange> {
        self.registry.exchange(Handle::try_current().ok()?.id())
    }

    /// Why a charge on a connection has no verdict. Draws conclusions from it.
    pub(crate) fn no_answer(&self, exchange: &Exchange, why: CallError) -> StoreError {
        match self.known() {
            Some(node) => node.store_error(exchange, why),
            None => why.into_store_error(),
        }
    }

    fn add_node(&self, runtime: &Handle) -> Arc<Node> {
        if let Err(error) = timers() {
            let hopeless = Node::hopeless(error);
            return self.registry.find_or_add(runtime.id(), hopeless, |node| {
                let (registry, node) = (Arc::downgrade(&self.registry), Arc::downgrade(node));
                runtime.spawn(end_with_runtime(registry, node));
            });
        }
        let (node, reports) = Node::new();
        self.registry.find_or_add(runtime.id(), node, |node| {
            supervisor::start(runtime, self.resolver.clone(), self.sharing, &self.registry, node, reports);
        })
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.registry.len()
    }
}

/// The runtime of the caller.
pub(crate) fn runtime() -> Result<Handle, StoreError> {
    let message = "the Redis store needs a tokio runtime: call it from within one";
    Handle::try_current().map_err(|_| StoreError::misconfigured(message))
}

/// Whether it has all that connections need.
pub(crate) fn timers() -> Result<(), StoreError> {
    let message = "the Redis store needs the timers and the I/O of its tokio runtime: build it with `enable_all()`";
    real_time::timers().map_err(|_| StoreError::misconfigured(message))
}
