//! Connections for transactions. Between WATCH and EXEC a connection belongs to one caller, so these are apart from the
//! one that all share.
//!
//! There are few of them per runtime, they are opened when first needed, and they go with the shared connection: when
//! that one is given up, so are they.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Pipeline, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::errors;
use super::link::{Health, InFlight, Shared, Slot};
use crate::error::StoreError;

/// Transactions at once, per runtime. Further ones wait.
const SIZE: usize = 8;
/// For looking up the name, connecting, TLS and logging in.
const CONNECT: Duration = Duration::from_secs(5);
/// More than there are connections, so that it is rare for two keys to share a line.
const LINES: usize = 64;

pub(super) struct Pool {
    idle: Mutex<Vec<MultiplexedConnection>>,
    permits: Arc<Semaphore>,
    /// Callers of one runtime with the same key go one after the other: they would only undo each other's work.
    lines: Vec<tokio::sync::Mutex<()>>,
    hasher: RandomState,
}

impl Pool {
    pub(super) fn new() -> Self {
        Self {
            idle: Mutex::default(),
            permits: Arc::new(Semaphore::new(SIZE)),
            lines: (0..LINES).map(|_| tokio::sync::Mutex::default()).collect(),
            hasher: RandomState::new(),
        }
    }

    /// Waits in the lines of these keys. Everybody takes the lines in the same order, so nobody waits in a circle.
    pub(super) async fn stand_in_line(&self, keys: &[&[u8]]) -> Vec<tokio::sync::MutexGuard<'_, ()>> {
        let line = |key: &&[u8]| usize::try_from(self.hasher.hash_one(key)).unwrap_or_default() % LINES;
        let mut wanted: Vec<usize> = keys.iter().map(line).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let mut guards = Vec::with_capacity(wanted.len());
        for line in wanted.into_iter().filter_map(|line| self.lines.get(line)) {
            guards.push(line.lock().await);
        }
        guards
    }

    fn idle(&self) -> MutexGuard<'_, Vec<MultiplexedConnection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that nobody else uses. It goes back when the lease is dropped, unless a reply is outstanding: then it
/// is closed.
pub(super) struct Lease {
    connection: Option<MultiplexedConnection>,
    shared: Arc<Shared>,
    slot: Arc<Slot>,
    health: Arc<Health>,
    _permit: OwnedSemaphorePermit,
}

impl Lease {
    pub(super) async fn new(shared: Arc<Shared>, slot: Arc<Slot>, health: Arc<Health>) -> Result<Self, StoreError> {
        // Whoever gives up here has not been answered either.
        let (own_slot, own_health) = (Arc::clone(&slot), Arc::clone(&health));
        let waiting = InFlight::new(&own_slot, &own_health);
        let lease = Self::wait(shared, slot, health).await;
        waiting.done();
        lease
    }

    async fn wait(shared: Arc<Shared>, slot: Arc<Slot>, health: Arc<Health>) -> Result<Self, StoreError> {
        let permit = Arc::clone(&health.pool.permits).acquire_owned().await;
        let permit = permit.map_err(|_| StoreError::unavailable("the connections to Redis are closed"))?;
        let idle = health.pool.idle().pop();
        if let Some(connection) = idle {
            return Ok(Self { connection: Some(connection), shared, slot, health, _permit: permit });
        }
        // On a task of its own, so that a slow handshake outlives a caller who gives up: the next one finds it done.
        let connecting = tokio::spawn(async move {
            let connection = connect(&shared.client, &shared.address()).await?;
            Ok(Self { connection: Some(connection), shared, slot, health, _permit: permit })
        });
        connecting.await.unwrap_or_else(|_| Err(StoreError::unavailable("connecting to Redis was cut short")))
    }

    /// Sends several commands at once, and gives their replies.
    ///
    /// # Errors
    ///
    /// Those of the connection, and the first that the server replies.
    pub(super) async fn exchange(&mut self, commands: &Pipeline) -> Result<Vec<Value>, StoreError> {
        let Some(mut connection) = self.connection.take() else {
            return Err(StoreError::unavailable("the connection to Redis is closed"));
        };
        let replies = connection.send_packed_commands(commands, 0, commands.len());
        let replies = self.shared.hear(&self.slot, &self.health, replies).await?;
        self.connection = Some(connection);
        self.slot.first_error(&self.health, &replies).map_or(Ok(replies), Err)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.health.pool.idle().push(connection);
        }
    }
}

async fn connect(client: &Client, address: &str) -> Result<MultiplexedConnection, StoreError> {
    let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    match tokio::time::timeout(CONNECT, client.get_multiplexed_async_connection_with_config(&config)).await {
        Ok(connection) => connection.map_err(|error| errors::from_client(error, address)),
        Err(_) => Err(StoreError::unavailable(format!("no answer from Redis at {address} within {CONNECT:?}"))),
    }
}
