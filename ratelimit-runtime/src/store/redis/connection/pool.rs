//! Connections for transactions. Between WATCH and EXEC a connection belongs to one caller, so these are apart from the
//! one that all share.
//!
//! There are few of them per runtime, they are opened when first needed, and they go with the shared connection: when
//! that one is over, so are they. What happens to one of them says nothing about any other.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::{Cmd, Pipeline, ServerError, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;

use super::attempt::connect_within;
use super::exchange::Exchange;
use super::queue::Sharing;
use super::resolve::Target;
use crate::error::StoreError;
use crate::store::redis::errors;
use crate::store::redis::wire::question::{NoAnswer, Question};
use crate::store::redis::wire::server::Server;

/// Transactions at once, per runtime. Further ones wait.
const SIZE: usize = 8;
/// More than there are connections, so that two keys rarely share a queue.
const LINES: usize = 64;

#[derive(Clone)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    server: Arc<Server>,
    /// The connection that all share.
    main: Exchange,
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
    /// Callers of one runtime with the same key go one after the other: they would only undo each other's work.
    lines: Vec<tokio::sync::Mutex<()>>,
    hasher: RandomState,
}

/// An open connection; dropping it closes it.
struct Connection {
    exchange: Exchange,
    task: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Pool {
    pub(crate) fn new(server: Arc<Server>, main: Exchange) -> Self {
        let shared = Shared {
            server,
            main,
            idle: Mutex::default(),
            permits: Arc::new(Semaphore::new(SIZE)),
            lines: (0..LINES).map(|_| tokio::sync::Mutex::default()).collect(),
            hasher: RandomState::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Waits in the queues of these keys. Everybody takes them in the same order, so there is no deadlock.
    async fn stand_in_line(&self, keys: &[&[u8]]) -> Vec<tokio::sync::MutexGuard<'_, ()>> {
        let line = |key: &&[u8]| usize::try_from(self.shared.hasher.hash_one(key)).unwrap_or_default() % LINES;
        let mut wanted: Vec<usize> = keys.iter().map(line).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let mut guards = Vec::with_capacity(wanted.len());
        for line in wanted.into_iter().filter_map(|line| self.shared.lines.get(line)) {
            guards.push(line.lock().await);
        }
        guards
    }

    /// A connection that nobody else uses.
    async fn lease(&self, is_asking: bool) -> Result<Lease, StoreError> {
        let permit = Arc::clone(&self.shared.permits).acquire_owned().await;
        let permit = permit.map_err(|_| StoreError::unavailable("the connections to Redis are closed"))?;
        let pool = self.clone();
        loop {
            // Not in the condition: the lock is for a moment only.
            let idle = self.shared.idle().pop();
            match idle {
                Some(connection) if connection.exchange.is_open() => {
                    return Ok(Lease { connection: Some(connection), pool, is_asking, _permit: permit });
                }
                Some(closed) => drop(closed),
                None => break,
            }
        }
        // On a task of its own, so that a slow handshake outlives a caller who gives up: the next one finds it done.
        let connecting = tokio::spawn(async move {
            let made = connect_within(&(Arc::clone(&pool.shared.server) as Target)).await?;
            if let Some(error) = made.says {
                return Err(error);
            }
            let (exchange, task) = Exchange::start(made.stream, Sharing::None);
            let connection = Connection { exchange, task: tokio::spawn(task).abort_handle() };
            Ok(Lease { connection: Some(connection), pool, is_asking, _permit: permit })
        });
        connecting.await.unwrap_or_else(|_| Err(StoreError::unavailable("connecting to Redis was cut short")))
    }
}

/// Where one caller gets a connection that nobody else uses.
pub(crate) struct Exclusive {
    pool: Pool,
    is_asking: bool,
}

impl Exclusive {
    /// `is_asking` puts an `ASKING` before what is sent.
    pub(crate) fn new(pool: Pool, is_asking: bool) -> Self {
        Self { pool, is_asking }
    }

    /// Waits in the queues of these keys. Everybody takes them in the same order, so there is no deadlock.
    pub(crate) async fn stand_in_line(&self, keys: &[&[u8]]) -> Vec<tokio::sync::MutexGuard<'_, ()>> {
        self.pool.stand_in_line(keys).await
    }

    pub(crate) async fn lease(&self) -> Result<Lease, StoreError> {
        self.pool.lease(self.is_asking).await
    }
}

impl Shared {
    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that nobody else uses. It goes back when the lease is dropped, unless a reply is outstanding: then it
/// is closed.
pub(crate) struct Lease {
    connection: Option<Connection>,
    pool: Pool,
    /// Whether every command follows an `ASKING`.
    is_asking: bool,
    _permit: OwnedSemaphorePermit,
}

impl Lease {
    /// Watches these keys, and gives the replies to commands that read. The inner error is the first that the server
    /// replies.
    pub(crate) async fn watch(
        &mut self,
        keys: &[&[u8]],
        read: &[Cmd],
    ) -> Result<Result<Vec<Value>, ServerError>, StoreError> {
        Ok(match self.ask(Question::watch(keys, read, self.is_asking)).await? {
            Ok(Value::Array(replies)) => Ok(replies.into_iter().skip(1).collect()),
            Ok(_) => return Err(errors::unexpected_reply()),
            Err(error) => Err(error),
        })
    }

    /// Carries out all of these commands, and gives their replies; nothing if a key that is watched has changed, and then
    /// none was.
    pub(crate) async fn execute(
        &mut self,
        commands: &Pipeline,
    ) -> Result<Result<Option<Vec<Value>>, ServerError>, StoreError> {
        let question = Question::transaction(commands);
        let question = if self.is_asking { question.asking() } else { question };
        match self.ask(question).await? {
            Ok(Value::Array(replies)) => Ok(Ok(Some(replies))),
            Ok(Value::Nil) => Ok(Ok(None)),
            Ok(_) => Err(errors::unexpected_reply()),
            Err(error) => Ok(Err(error)),
        }
    }

    async fn ask(&mut self, question: Question) -> Result<Result<Value, ServerError>, StoreError> {
        let closed = || StoreError::unavailable("the connection to Redis is closed");
        let connection = self.connection.take().ok_or_else(closed)?;
        let reply = match connection.exchange.ask(question).await {
            Ok(reply) => reply,
            Err(NoAnswer::Lost(error) | NoAnswer::Refused(error)) => return Err(error),
            Err(NoAnswer::Error(error)) => Value::ServerError(error),
            Err(NoAnswer::NotAsked | NoAnswer::TooLate) => return Err(closed()),
        };
        let error = errors::first(std::slice::from_ref(&reply));
        if !error.is_some_and(errors::is_logged_out) {
            self.connection = Some(connection);
        }
        match error {
            None => Ok(Ok(reply)),
            Some(error) => {
                if errors::is_replica(error) {
                    // The name may lead to another server by now.
                    self.pool.shared.main.close(errors::from_server(error), false);
                }
                Ok(Err(error.clone()))
            }
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.pool.shared.idle().push(connection);
        }
    }
}
