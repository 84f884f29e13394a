//! [`NodeRegistry`]: of one server, one [`Node`](super::Node) per tokio runtime. A connection ends
//! with the runtime that drives it.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};

use tokio::runtime::Id;

use super::Node;
use crate::store::redis::connection::exchange::Exchange;

/// How many connections a store has had, to all of its servers.
pub(crate) type ConnectionCount = Arc<AtomicU64>;

pub(crate) struct NodeRegistry {
    all: RwLock<Vec<(Id, Arc<Node>)>>,
    connections: ConnectionCount,
    has_warned: AtomicBool,
    has_missed_role: AtomicBool,
}

impl NodeRegistry {
    pub(crate) fn new(connections: ConnectionCount) -> Self {
        let (has_warned, has_missed_role) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { all: RwLock::default(), connections, has_warned, has_missed_role }
    }

    pub(crate) fn find(&self, runtime: Id) -> Option<Arc<Node>> {
        find(&self.all.read().unwrap_or_else(PoisonError::into_inner), runtime)
    }

    /// The connection of a runtime's node, if the server serves.
    pub(crate) fn exchange(&self, runtime: Id) -> Option<Exchange> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        all.iter().find(|known| known.0 == runtime)?.1.exchange()
    }

    /// The node of a runtime; `start` is called with it if it is a new one.
    pub(crate) fn find_or_add(&self, runtime: Id, node: Node, start: impl FnOnce(&Arc<Node>)) -> Arc<Node> {
        let node = {
            let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
            if let Some(known) = find(&all, runtime) {
                return known;
            }
            let node = Arc::new(node);
            all.push((runtime, Arc::clone(&node)));
            node
        };
        start(&node);
        node
    }

    /// Takes a node out; the next call of its runtime adds another.
    pub(crate) fn forget(&self, node: &Weak<Node>) {
        let forgotten = {
            let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
            let index = all.iter().position(|known| std::ptr::eq(Arc::as_ptr(&known.1), node.as_ptr()));
            index.map(|index| all.swap_remove(index))
        };
        // Dropping a connection runs foreign code: not under the lock.
        drop(forgotten);
    }

    /// Counts a new connection, before any call uses it.
    pub(crate) fn count_connection(&self) {
        self.connections.fetch_add(1, Ordering::Release);
    }

    /// Whether no warning has been logged yet of what the server does when its memory is full.
    pub(crate) fn is_first_to_warn(&self) -> bool {
        !self.has_warned.swap(true, Ordering::Relaxed)
    }

    /// Whether it has not been logged yet that the server does not tell its role.
    pub(crate) fn is_first_to_miss_role(&self) -> bool {
        !self.has_missed_role.swap(true, Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.all.read().unwrap_or_else(PoisonError::into_inner).len()
    }
}

fn find(all: &[(Id, Arc<Node>)], runtime: Id) -> Option<Arc<Node>> {
    all.iter().find(|known| known.0 == runtime).map(|known| Arc::clone(&known.1))
}

/// Forgets a node when its runtime ends.
pub(crate) fn end_with_runtime(nodes: Weak<NodeRegistry>, node: Weak<Node>) -> impl Future<Output = ()> + Send {
    struct Forget(Weak<NodeRegistry>, Weak<Node>);

    impl Drop for Forget {
        fn drop(&mut self) {
            if let Some(nodes) = self.0.upgrade() {
                nodes.forget(&self.1);
            }
        }
    }

    // Dropped with the future, whether that ever ran or not.
    let forget = Forget(nodes, node);
    async move {
        let _forget = forget;
        std::future::pending::<()>().await;
    }
}
