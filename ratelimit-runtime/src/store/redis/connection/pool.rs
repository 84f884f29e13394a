//! [`Pool`]: exclusive connections, for transactions. Between `WATCH` and `EXEC` a connection
//! belongs to one caller, so these are apart from the one that all share.
//!
//! There are few of them per runtime. They are opened when first needed, and end with the shared
//! connection. What happens to one of them says nothing about any other.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::{Cmd, Pipeline, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;

use super::attempt::connect_within;
use super::exchange::Exchange;
use super::queue::Sharing;
use super::resolve::Resolver;
use crate::error::StoreError;
use crate::store::redis::errors;
use crate::store::redis::wire::commands::{CallError, Commands, ServerResult};
use crate::store::redis::wire::server::Server;

/// Transactions at once, per runtime. Further ones wait.
const SIZE: usize = 8;
/// More than there are connections, so that two keys rarely share a lock.
const LOCKS: usize = 64;

#[derive(Clone)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    server: Arc<Server>,
    /// The connection that all share.
    main: Exchange,
    idle: Mutex<Vec<PooledExchange>>,
    /// How often a caller has wanted a connection.
    leases: AtomicU64,
    permits: Arc<Semaphore>,
    /// Callers of one runtime with the same key go one after the other: they would only make each
    /// other's transactions fail.
    locks: Vec<tokio::sync::Mutex<()>>,
    hasher: RandomState,
}

/// An open connection; dropping it closes it.
struct PooledExchange {
    exchange: Exchange,
    task: AbortHandle,
}

impl Drop for PooledExchange {
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
            leases: AtomicU64::new(0),
            permits: Arc::new(Semaphore::new(SIZE)),
            locks: (0..LOCKS).map(|_| tokio::sync::Mutex::default()).collect(),
            hasher: RandomState::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// How often a caller has wanted a connection.
    pub(super) fn leases(&self) -> u64 {
        self.shared.leases.load(Ordering::Relaxed)
    }

    /// Waits for the locks of these keys. All callers take them in the same order, so there is no
    /// deadlock.
    async fn lock_keys(&self, keys: &[&[u8]]) -> Vec<tokio::sync::MutexGuard<'_, ()>> {
        let index = |key: &&[u8]| usize::try_from(self.shared.hasher.hash_one(key)).unwrap_or_default() % LOCKS;
        let mut wanted: Vec<usize> = keys.iter().map(index).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let mut guards = Vec::with_capacity(wanted.len());
        for lock in wanted.into_iter().filter_map(|index| self.shared.locks.get(index)) {
            guards.push(lock.lock().await);
        }
        guards
    }

    /// A connection that no other caller uses.
    async fn lease(&self, is_asking: bool) -> Result<Lease, StoreError> {
        self.shared.leases.fetch_add(1, Ordering::Relaxed);
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
        // On a task of its own, so that a slow login goes on if the caller is cancelled: the next
        // one finds it done.
        let connecting = tokio::spawn(async move {
            let session = connect_within(&(Arc::clone(&pool.shared.server) as Resolver)).await?;
            if let Some(error) = session.unready {
                return Err(error);
            }
            let (exchange, task) = Exchange::start(session.stream, Sharing::None);
            let connection = PooledExchange { exchange, task: tokio::spawn(task).abort_handle() };
            Ok(Lease { connection: Some(connection), pool, is_asking, _permit: permit })
        });
        connecting.await.unwrap_or_else(|_| Err(StoreError::unavailable("connecting to Redis was cut short")))
    }
}

/// Where one caller gets a connection that no other uses.
pub(crate) struct Exclusive {
    pool: Pool,
    is_asking: bool,
}

impl Exclusive {
    /// `is_asking` puts an `ASKING` before what is sent.
    pub(crate) fn new(pool: Pool, is_asking: bool) -> Self {
        Self { pool, is_asking }
    }

    /// Waits for the locks of these keys, one after the other.
    pub(crate) async fn lock_keys(&self, keys: &[&[u8]]) -> Vec<tokio::sync::MutexGuard<'_, ()>> {
        self.pool.lock_keys(keys).await
    }

    pub(crate) async fn lease(&self) -> Result<Lease, StoreError> {
        self.pool.lease(self.is_asking).await
    }
}

impl Shared {
    fn idle(&self) -> MutexGuard<'_, Vec<PooledExchange>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that no other caller uses. It goes back to the pool when the lease is dropped,
/// unless a reply is outstanding: then it is closed.
pub(crate) struct Lease {
    connection: Option<PooledExchange>,
    pool: Pool,
    /// Whether every command follows an `ASKING`.
    is_asking: bool,
    _permit: OwnedSemaphorePermit,
}

impl Lease {
    /// Watches these keys, and gives the replies to commands that read. The inner error is the
    /// first that the server replies.
    pub(crate) async fn watch(&mut self, keys: &[&[u8]], read: &[Cmd]) -> ServerResult<Vec<Value>> {
        Ok(match self.send(Commands::watch(keys, read, self.is_asking)).await? {
            Ok(Value::Array(replies)) => Ok(replies.into_iter().skip(1).collect()),
            Ok(_) => return Err(errors::unexpected_reply()),
            Err(error) => Err(error),
        })
    }

    /// Carries out all of these commands, and gives their replies. `None` if a watched key has
    /// changed: then none was carried out.
    pub(crate) async fn execute(&mut self, pipeline: &Pipeline) -> ServerResult<Option<Vec<Value>>> {
        let commands = Commands::transaction(pipeline);
        let commands = if self.is_asking { commands.asking() } else { commands };
        match self.send(commands).await? {
            Ok(Value::Array(replies)) => Ok(Ok(Some(replies))),
            Ok(Value::Nil) => Ok(Ok(None)),
            Ok(_) => Err(errors::unexpected_reply()),
            Err(error) => Ok(Err(error)),
        }
    }

    async fn send(&mut self, commands: Commands) -> ServerResult<Value> {
        let closed = || StoreError::unavailable("the connection to Redis is closed");
        let connection = self.connection.take().ok_or_else(closed)?;
        let reply = match connection.exchange.send(commands).await {
            Ok(reply) => reply,
            Err(CallError::Lost(error) | CallError::Unready(error)) => return Err(error),
            Err(CallError::Server(error)) => Value::ServerError(error),
            Err(CallError::NotSent | CallError::TooLate) => return Err(closed()),
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
