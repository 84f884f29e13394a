//! [`Connections`]: the way to one Redis server, one connection per tokio runtime.
//!
//! A call never connects. Each runtime has a `supervisor`, a task that connects and connects again; calls read the state that it
//! publishes in the `node`. From there a question goes through the `queue` into the `exchange`, which is one open
//! connection. Transactions take connections of their own from the `pool`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Cmd, Pipeline, ServerError, Value};
use tokio::runtime::Handle;

use self::node::{Node, Report};
use self::nodes::Nodes;
use self::pool::Pool;
use self::question::Expected;
use self::target::Target;
use crate::error::{StoreError, StoreErrorKind};
use crate::real_time;
use crate::store::redis::errors;
use crate::store::{Health, Verdict};

mod attempt;
mod batch;
mod deployment;
mod eviction;
mod exchange;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzzing;
mod incoming;
mod item;
mod login;
mod members;
mod node;
mod nodes;
mod pool;
mod question;
mod queue;
mod race;
mod records;
mod resp;
mod room;
mod sentinel;
mod server;
#[cfg(test)]
mod simulation;
mod slab;
mod state;
mod stream;
mod supervisor;
mod target;
#[cfg(feature = "redis-tls")]
mod tls;
mod url;

pub(super) use self::deployment::Deployment;
pub(super) use self::item::{Item, Question};

pub(super) struct Connections {
    deployment: Deployment,
    nodes: Arc<Nodes>,
    /// Whether decisions may share calls. Holds for connections that are made from then on.
    pub(super) group_commit: bool,
}

impl Connections {
    pub(super) fn new(deployment: Deployment) -> Self {
        Self { deployment, nodes: Arc::default(), group_commit: true }
    }

    pub(super) fn deployment(&self) -> &Deployment {
        &self.deployment
    }

    /// Calls by a caller who waits until this moment.
    pub(super) fn until(&self, timeout_at: Option<Instant>) -> Calls<'_> {
        Calls { connections: self, timeout_at }
    }

    pub(super) fn health(&self) -> Health {
        let node = Handle::try_current().ok().and_then(|runtime| self.nodes.find(runtime.id()));
        node.map_or(Health::Down, |node| node.health())
    }

    /// How many connections there have been.
    pub(super) fn made(&self) -> u64 {
        self.nodes.connections_made()
    }

    /// A call waited for `timeout` in vain.
    pub(super) fn overdue(&self, timeout: Duration) {
        if let Ok(node) = self.node() {
            node.report(Report::Overdue(timeout));
        }
    }

    /// Resolves once the server serves, or with an error that no waiting will cure.
    pub(super) async fn ready(&self) -> Result<(), StoreError> {
        // How long it takes a server that is known to serve to say so.
        const PROBE: Duration = Duration::from_secs(1);
        loop {
            let node = self.node()?;
            node.ready().await?;
            let said =
                match real_time::timeout_at(Instant::now() + PROBE, self.until(None).send(&redis::cmd("PING"))).await {
                    Ok(Ok(Ok(reply))) => login::serves(&reply),
                    Ok(Ok(Err(reply))) => login::serves(&Value::ServerError(reply)),
                    Ok(Err(error)) => Err(error),
                    Err(_) => {
                        node.report(Report::Overdue(PROBE));
                        Err(StoreError::unavailable("Redis does not answer"))
                    }
                };
            match said {
                Err(error) if error.kind() != StoreErrorKind::Misconfigured => {}
                said => return said,
            }
            real_time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn node(&self) -> Result<Arc<Node>, StoreError> {
        let Ok(runtime) = Handle::try_current() else {
            return Err(StoreError::misconfigured("the Redis store needs a tokio runtime: call it from within one"));
        };
        if let Some(node) = self.nodes.find(runtime.id()) {
            return Ok(node);
        }
        Ok(self.add_node(&runtime))
    }

    fn add_node(&self, runtime: &Handle) -> Arc<Node> {
        let target = match &self.deployment {
            Deployment::Standalone(server) => Target::Server(Arc::clone(server)),
            Deployment::Sentinel(sentinels) => Target::Master(Arc::clone(sentinels)),
            Deployment::Cluster(_) => {
                return self.add_hopeless(runtime, "Redis Cluster is not supported yet");
            }
        };
        if real_time::timers().is_err() {
            let error =
                "the Redis store needs the timers and the I/O of its tokio runtime: build it with `enable_all()`";
            return self.add_hopeless(runtime, error);
        }
        let (node, reports) = Node::new();
        self.nodes.find_or_add(runtime.id(), node, |node| {
            supervisor::start(runtime, target, self.group_commit, &self.nodes, node, reports);
        })
    }

    /// A node that will never be connected.
    fn add_hopeless(&self, runtime: &Handle, why: &'static str) -> Arc<Node> {
        let hopeless = Node::hopeless(StoreError::misconfigured(why));
        self.nodes.find_or_add(runtime.id(), hopeless, |node| {
            let (nodes, node) = (Arc::downgrade(&self.nodes), Arc::downgrade(node));
            runtime.spawn(supervisor::end_with_runtime(nodes, node));
        })
    }
}

/// How callers ask.
#[derive(Clone, Copy)]
pub(super) struct Calls<'a> {
    connections: &'a Connections,
    timeout_at: Option<Instant>,
}

impl Calls<'_> {
    /// Sends one command. The outer error is the connection's, the inner one the server's reply.
    ///
    /// Dropping the future leaves nothing behind but the command, which may run.
    pub(super) async fn send(&self, command: &Cmd) -> Result<Result<Value, ServerError>, StoreError> {
        self.ask(|| command.get_packed_command(), Expected::Anything).await
    }

    /// The same; a reply of another form shows that replies and questions have come apart.
    pub(super) async fn send_for(
        &self,
        command: &Cmd,
        is_like: fn(&Value) -> bool,
    ) -> Result<Result<Value, ServerError>, StoreError> {
        self.send_packed(|| command.get_packed_command(), is_like).await
    }

    /// The same for a command that is written as bytes.
    pub(super) async fn send_packed(
        &self,
        packed: impl Fn() -> Vec<u8>,
        is_like: fn(&Value) -> bool,
    ) -> Result<Result<Value, ServerError>, StoreError> {
        self.ask(packed, Expected::Like(is_like)).await
    }

    /// Sends a MULTI … EXEC at once, and gives all replies.
    ///
    /// # Errors
    ///
    /// Those of the connection, and the first that the server replies.
    pub(super) async fn send_all(&self, commands: &Pipeline) -> Result<Vec<Value>, StoreError> {
        let question = || question::Question {
            packed: commands.get_packed_pipeline(),
            replies: commands.len(),
            expected: Expected::Transaction,
            timeout_at: self.timeout_at,
        };
        match self.connections.node()?.ask(question).await? {
            Value::Array(replies) => {
                errors::first(&replies).map_or(Ok(()), |error| Err(errors::from_server(error))).map(|()| replies)
            }
            _ => Err(errors::unexpected_reply()),
        }
    }

    async fn ask(
        &self,
        packed: impl Fn() -> Vec<u8>,
        expected: Expected,
    ) -> Result<Result<Value, ServerError>, StoreError> {
        let question = || question::Question { packed: packed(), replies: 1, expected, timeout_at: self.timeout_at };
        Ok(match self.connections.node()?.ask(question).await? {
            Value::ServerError(error) => Err(error),
            reply => Ok(reply),
        })
    }

    /// Asks for a decision. It may share a call with others, and is asked in the order of those on its key.
    pub(super) async fn decide(&self, item: &Item<'_>) -> Result<Verdict, StoreError> {
        self.connections.node()?.decide(item).await
    }

    /// Ends the connection, because its reply cannot belong to the question.
    pub(super) fn end(&self, error: &StoreError) {
        if let Ok(node) = self.connections.node() {
            node.end(error);
        }
    }

    /// A place in the queues of the keys, and the way to a connection that nobody else uses.
    pub(super) async fn exclusive(&self) -> Result<Exclusive, StoreError> {
        Ok(Exclusive { pool: self.connections.node()?.connected().await?.pool })
    }
}

/// Where callers get a connection that nobody else uses.
pub(super) struct Exclusive {
    pool: Pool,
}

impl Exclusive {
    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(super) async fn lease(&self) -> Result<pool::Lease, StoreError> {
        self.pool.lease().await
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    #[test]
    fn nodes_end_with_their_runtimes() {
        // Nobody listens there.
        let connections = Connections::new(Deployment::from_url("redis://127.0.0.1:1").unwrap());
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let ping = || connections.until(None);
        let lasting = runtime();
        assert!(lasting.block_on(ping().send(&redis::cmd("PING"))).is_err());
        for _ in 0..10 {
            let passing = runtime();
            assert!(passing.block_on(ping().send(&redis::cmd("PING"))).is_err());
            assert_eq!(connections.nodes.len(), 2);
        }
        assert_eq!(connections.nodes.len(), 1);
    }

    #[test]
    fn a_runtime_that_lacks_something_is_said_to() {
        let connections = Connections::new(Deployment::from_url("redis://127.0.0.1:1").unwrap());
        let bare = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let timers = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        for runtime in [&bare, &timers] {
            for _ in 0..3 {
                let error = runtime.block_on(connections.until(None).send(&redis::cmd("PING"))).unwrap_err();
                assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
                assert!(error.message().contains("enable_all"), "{error}");
            }
            assert_eq!(runtime.block_on(connections.ready()).unwrap_err().kind(), StoreErrorKind::Misconfigured);
        }
        drop((bare, timers));
        assert_eq!(connections.nodes.len(), 0);
    }
}
