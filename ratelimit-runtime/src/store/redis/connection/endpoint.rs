//! [`Endpoint`]: one place to connect to, and the [`Node`] that each runtime has for it.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::runtime::Handle;

use super::node::Node;
use super::node::nodes::{Nodes, end_with_runtime};
use super::queue::Sharing;
use super::resolve::Target;
use super::supervisor;
use crate::error::StoreError;
use crate::real_time;

/// How many connections a store has had, to whatever server.
pub(crate) type Made = Arc<AtomicU64>;

pub(crate) struct Endpoint {
    target: Target,
    sharing: Sharing,
    nodes: Arc<Nodes>,
}

impl Endpoint {
    /// Connects to nothing yet.
    pub(crate) fn new(target: Target, sharing: Sharing, made: &Made) -> Self {
        Self { target, sharing, nodes: Arc::new(Nodes::new(Arc::clone(made))) }
    }

    /// The node of this runtime, which begins to connect if it is a new one.
    pub(crate) fn node(&self) -> Result<Arc<Node>, StoreError> {
        let runtime = runtime()?;
        match self.nodes.find(runtime.id()) {
            Some(node) => Ok(node),
            None => Ok(self.add_node(&runtime)),
        }
    }

    /// The node of this runtime, if there is one.
    pub(crate) fn known_node(&self) -> Option<Arc<Node>> {
        self.nodes.find(Handle::try_current().ok()?.id())
    }

    fn add_node(&self, runtime: &Handle) -> Arc<Node> {
        if let Err(error) = timers() {
            let hopeless = Node::hopeless(error);
            return self.nodes.find_or_add(runtime.id(), hopeless, |node| {
                let (nodes, node) = (Arc::downgrade(&self.nodes), Arc::downgrade(node));
                runtime.spawn(end_with_runtime(nodes, node));
            });
        }
        let (node, reports) = Node::new();
        self.nodes.find_or_add(runtime.id(), node, |node| {
            supervisor::start(runtime, self.target.clone(), self.sharing, &self.nodes, node, reports);
        })
    }

    #[cfg(test)]
    pub(crate) fn nodes(&self) -> usize {
        self.nodes.len()
    }
}

/// The runtime of whoever calls.
pub(crate) fn runtime() -> Result<Handle, StoreError> {
    let message = "the Redis store needs a tokio runtime: call it from within one";
    Handle::try_current().map_err(|_| StoreError::misconfigured(message))
}

/// Whether it has all that connections need.
pub(crate) fn timers() -> Result<(), StoreError> {
    let message = "the Redis store needs the timers and the I/O of its tokio runtime: build it with `enable_all()`";
    real_time::timers().map_err(|_| StoreError::misconfigured(message))
}
