//! [`Pool`]: connections for transactions, each lent to one caller at a time: between `WATCH` and
//! `EXEC`, a connection cannot be shared.
//!
//! They are opened when they are first needed, and end when the link's own connection does. A
//! connection goes back unless a reply is outstanding; each `WATCH` follows an `UNWATCH`, because
//! the last caller may have written nothing.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use redis::{Cmd, Pipeline, Value, cmd};
use tokio::sync::{MutexGuard, OwnedSemaphorePermit, Semaphore};

use crate::error::StoreError;
use crate::real_time;
use crate::store::redis::backoff::Backoff;
use crate::store::redis::batcher::Failure;
use crate::store::redis::errors::{self, unexpected_reply};
use crate::store::redis::link::{Connection, Link, look};

/// Transactions at once; further ones wait.
const SIZE: usize = 8;
/// More than there are connections, so that two keys rarely share a lock.
const LOCKS: usize = 64;
/// The pauses after another client was faster.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(32));

/// The connections of one link for transactions.
#[derive(Debug)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
    /// Callers with the same key go one after the other: they would only make each other's
    /// transactions fail.
    locks: [tokio::sync::Mutex<()>; LOCKS],
    hasher: RandomState,
}

#[derive(Debug)]
struct Shared {
    link: Arc<Link>,
    permits: Arc<Semaphore>,
    idle: Mutex<Idle>,
}

#[derive(Debug, Default)]
struct Idle {
    /// The connection of the link beside which these were opened.
    beside: Weak<Connection>,
    connections: Vec<Connection>,
}

impl Pool {
    pub(crate) fn new(link: Arc<Link>) -> Self {
        Self {
            shared: Arc::new(Shared { link, permits: Arc::new(Semaphore::new(SIZE)), idle: Mutex::default() }),
            locks: std::array::from_fn(|_| tokio::sync::Mutex::default()),
            hasher: RandomState::new(),
        }
    }

    /// A connection for a caller with these keys, who waits `until` then. `asking` puts an `ASKING`
    /// before each command.
    pub(super) async fn lend(&self, keys: &[&[u8]], asking: bool, until: Option<Instant>) -> Result<Lent<'_>, Failure> {
        let index = |key: &&[u8]| usize::try_from(self.hasher.hash_one(key)).unwrap_or_default() % LOCKS;
        let mut wanted: Vec<usize> = keys.iter().map(index).collect();
        // All take them in the same order, so there is no deadlock.
        wanted.sort_unstable();
        wanted.dedup();
        let mut locks = Vec::with_capacity(wanted.len());
        for lock in wanted.into_iter().filter_map(|index| self.locks.get(index)) {
            locks.push(lock.lock().await);
        }
        let lease = Arc::clone(&self.shared).lease().await.map_err(Failure::NotSent)?;
        Ok(Lent { lease, asking, until, pauses: PAUSES, _locks: locks })
    }

    /// Carries out all of these commands in one transaction on the link's own connection, and
    /// gives their replies.
    pub(super) async fn execute(
        &self,
        commands: Vec<Cmd>,
        asking: bool,
        until: Option<Instant>,
    ) -> Result<Vec<Value>, Failure> {
        let connection = self.shared.link.connected().await.map_err(Failure::NotSent)?;
        let replies = self.shared.send(&connection, &connection, transaction(commands, asking), until).await;
        executed(replies.map_err(Failure::Lost)?)?.ok_or_else(|| Failure::Lost(unexpected_reply().lost()))
    }
}

impl Shared {
    /// Waits for its turn to have a connection, in the order of asking.
    async fn lease(self: Arc<Self>) -> Result<Lease, StoreError> {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.map_err(|_| StoreError::unavailable("the connections to Redis are closed"))?;
        // A server that has closed a connection has done so by itself, most likely while it was
        // idle.
        look().await;
        let beside = self.link.connected().await?;
        if let Some(idle) = self.take(&beside) {
            return Ok(Lease { connection: Some(idle), shared: self, beside, _permit: permit });
        }
        // On a task of its own: where the caller gives up during a slow login, the next one finds
        // it done.
        let connecting = tokio::spawn(async move {
            let connection = Some(self.link.connect_another().await?);
            Ok(Lease { connection, shared: self, beside, _permit: permit })
        });
        connecting.await.unwrap_or_else(|_| Err(StoreError::unavailable("connecting to Redis was cut short")))
    }

    /// An idle connection, if there is one; those that were opened beside another connection of the
    /// link end.
    fn take(&self, beside: &Arc<Connection>) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if !Weak::ptr_eq(&idle.beside, &Arc::downgrade(beside)) {
            *idle = Idle { beside: Arc::downgrade(beside), connections: Vec::new() };
        }
        idle.connections.retain(|connection| !connection.has_ended());
        idle.connections.pop()
    }

    fn put_back(&self, connection: Connection, beside: &Arc<Connection>) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if Weak::ptr_eq(&idle.beside, &Arc::downgrade(beside)) {
            idle.connections.push(connection);
        }
    }

    /// Sends all commands at once. The link hears of an answer that does not come in time, and of
    /// a server that does not serve.
    async fn send(
        &self,
        connection: &Connection,
        main: &Connection,
        commands: Vec<Cmd>,
        until: Option<Instant>,
    ) -> Result<Vec<Value>, StoreError> {
        let mut pipeline = Pipeline::with_capacity(commands.len());
        let count = commands.len();
        for command in commands {
            pipeline.add_command(command);
        }
        main.note_use();
        let mut awaited = Awaited { link: &self.link, main, sent: Instant::now(), until };
        let replies = connection.send_all(&pipeline, count).await;
        awaited.until = None;
        let replies = replies.map_err(|_| StoreError::unavailable("the connection to Redis was lost").lost())?;
        if let Some(error) = errors::first(&replies) {
            self.link.note(main, error);
        }
        Ok(replies)
    }
}

/// A call whose reply has not come. Dropped when its caller's time is over, it tells the link.
struct Awaited<'a> {
    link: &'a Link,
    main: &'a Connection,
    sent: Instant,
    until: Option<Instant>,
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        if self.until.is_some_and(|until| until <= Instant::now()) {
            self.link.late(self.main, self.sent);
        }
    }
}

/// A connection that no other caller uses. It goes back when this is dropped.
struct Lease {
    /// `None` while a reply is outstanding: where the caller gives up, the connection is dropped.
    connection: Option<Connection>,
    shared: Arc<Shared>,
    beside: Arc<Connection>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.shared.put_back(connection, &self.beside);
        }
    }
}

/// A connection lent to a caller, with its keys for itself within this process.
pub(super) struct Lent<'a> {
    lease: Lease,
    asking: bool,
    until: Option<Instant>,
    pauses: Backoff,
    _locks: Vec<MutexGuard<'a, ()>>,
}

impl Lent<'_> {
    async fn send(&mut self, commands: Vec<Cmd>) -> Result<Vec<Value>, StoreError> {
        let closed = || StoreError::unavailable("the connection to Redis is closed");
        let connection = self.lease.connection.take().ok_or_else(closed)?;
        let replies = self.lease.shared.send(&connection, &self.lease.beside, commands, self.until).await?;
        if !errors::first(&replies).is_some_and(errors::is_logged_out) {
            self.lease.connection = Some(connection);
        }
        Ok(replies)
    }

    /// Watches these keys, and gives the replies to commands that read.
    pub(super) async fn watch(&mut self, keys: &[&[u8]], reads: Vec<Cmd>) -> Result<Vec<Value>, Failure> {
        let watch = [cmd("UNWATCH"), cmd("WATCH").arg(keys).take()];
        let mut replies = self.read(watch.into_iter().chain(reads).collect()).await?;
        Ok(replies.split_off(2))
    }

    /// The replies to commands that read.
    pub(super) async fn read(&mut self, reads: Vec<Cmd>) -> Result<Vec<Value>, Failure> {
        let each = 1 + usize::from(self.asking);
        let ask = |command| self.asking.then(|| cmd("ASKING")).into_iter().chain([command]);
        let commands: Vec<Cmd> = reads.into_iter().flat_map(ask).collect();
        let count = commands.len();
        // Nothing is written yet, so nothing is lost.
        let replies = self.send(commands).await.map_err(Failure::NotSent)?;
        match errors::first(&replies) {
            Some(error) => Err(Failure::Server(error.clone())),
            None if replies.len() != count => Err(Failure::NotSent(unexpected_reply())),
            None => Ok(replies.into_iter().skip(each - 1).step_by(each).collect()),
        }
    }

    /// Carries out all of these commands, and gives their replies. `None` if a watched key has
    /// changed: then none was carried out, and after a pause it is to be read again.
    ///
    /// Each time it fails, another transaction on the same key has succeeded. The caller's timeout
    /// ends it by dropping it.
    pub(super) async fn execute(&mut self, commands: Vec<Cmd>) -> Result<Option<Vec<Value>>, Failure> {
        let replies = self.send(transaction(commands, self.asking)).await;
        let executed = executed(replies.map_err(Failure::Lost)?)?;
        if executed.is_none() {
            real_time::sleep(self.pauses.pause()).await;
        }
        Ok(executed)
    }
}

/// An `ASKING` holds for all of a transaction.
fn transaction(commands: Vec<Cmd>, asking: bool) -> Vec<Cmd> {
    let begin = asking.then(|| cmd("ASKING")).into_iter().chain([cmd("MULTI")]);
    begin.chain(commands).chain([cmd("EXEC")]).collect()
}

/// The replies to a [`transaction`]; `None` if a watched key has changed.
fn executed(mut replies: Vec<Value>) -> Result<Option<Vec<Value>>, Failure> {
    if let Some(error) = errors::first(&replies) {
        return Err(Failure::Server(error.clone()));
    }
    match replies.pop() {
        Some(Value::Array(replies)) => Ok(Some(replies)),
        Some(Value::Nil) => Ok(None),
        _ => Err(Failure::Lost(unexpected_reply().lost())),
    }
}
