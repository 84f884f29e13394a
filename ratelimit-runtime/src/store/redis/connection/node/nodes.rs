//! [`Nodes`]: of one server, one [`Node`](super::Node) per tokio runtime. A connection lives and
//! dies with the runtime that drives it.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};

use tokio::runtime::Id;

use super::Node;

pub(crate) struct Nodes {
    all: RwLock<Vec<(Id, Arc<Node>)>>,
    /// Counts connections, to this server and to others.
    made: Arc<AtomicU64>,
    has_warned: AtomicBool,
}

impl Nodes {
    pub(crate) fn new(made: Arc<AtomicU64>) -> Self {
        Self { all: RwLock::default(), made, has_warned: AtomicBool::new(false) }
    }

    pub(crate) fn find(&self, runtime: Id) -> Option<Arc<Node>> {
        find(&self.all.read().unwrap_or_else(PoisonError::into_inner), runtime)
    }

    /// The node of a runtime; `start` is called if it is a new one.
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

    /// Takes a node out; the next call of its runtime starts afresh.
    pub(crate) fn forget(&self, node: &Weak<Node>) {
        let forgotten = {
            let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
            let index = all.iter().position(|known| std::ptr::eq(Arc::as_ptr(&known.1), node.as_ptr()));
            index.map(|index| all.swap_remove(index))
        };
        // Dropping a connection runs foreign code: not under the lock.
        drop(forgotten);
    }

    /// One of the nodes has a new connection, which nobody uses yet.
    pub(crate) fn connected(&self) {
        self.made.fetch_add(1, Ordering::Release);
    }

    /// Whether nobody has warned yet of what the server does when it is full.
    pub(crate) fn is_first_to_warn(&self) -> bool {
        !self.has_warned.swap(true, Ordering::Relaxed)
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
pub(crate) fn end_with_runtime(nodes: Weak<Nodes>, node: Weak<Node>) -> impl Future<Output = ()> + Send {
    struct Forget(Weak<Nodes>, Weak<Node>);

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
