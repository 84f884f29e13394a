//! [`Pool`]: connections for transactions, each lent to one caller at a time: between `WATCH` and
//! `EXEC`, a connection cannot be shared.
//!
//! A key has always the same one, so callers with the same key go one after the other: they would
//! only make each other's transactions fail. A connection is opened when it is first needed, and
//! anew when the link's own one was. It is dropped while a reply is outstanding; each `WATCH`
//! follows an `UNWATCH`, because the last caller may have written nothing.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::{Cmd, Pipeline, Value, cmd};
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::error::{StoreError, StoreErrorKind};
use crate::real_time;
use crate::store::redis::backoff::Backoff;
use crate::store::redis::batcher::Failure;
use crate::store::redis::errors::{self, unexpected_reply};
use crate::store::redis::link::{Connection, Link, look};

/// Transactions at once.
const SIZE: u64 = 8;
/// The pauses after another client was faster.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(32));

/// The connections of one link for transactions.
pub(crate) struct Pool {
    link: Arc<Link>,
    places: Vec<Arc<Mutex<Place>>>,
    hasher: RandomState,
}

/// A connection, unless a reply is outstanding on it, and that of the link beside which it was
/// opened.
#[derive(Default)]
struct Place {
    connection: Option<Connection>,
    beside: Weak<Connection>,
}

impl Pool {
    pub(crate) fn new(link: Arc<Link>) -> Self {
        Self { link, places: (0..SIZE).map(|_| Arc::default()).collect(), hasher: RandomState::new() }
    }

    /// A connection for a caller with this key. `asking` puts an `ASKING` before each command.
    pub(super) async fn lend(&self, key: &[u8], asking: bool) -> Result<Lent<'_>, Failure> {
        let (place, beside) = self.place(self.hasher.hash_one(key) % SIZE).await.map_err(Failure::NotSent)?;
        Ok(Lent { link: &self.link, place, beside, asking, pauses: PAUSES })
    }

    async fn place(&self, index: u64) -> Result<(OwnedMutexGuard<Place>, Arc<Connection>), StoreError> {
        let index = usize::try_from(index).unwrap_or_default();
        let place = self.places.get(index).ok_or_else(|| StoreError::unavailable("there is no connection to Redis"))?;
        let mut place = Arc::clone(place).lock_owned().await;
        // A server that has closed a connection has done so by itself, most likely while it was
        // idle.
        look().await;
        let beside = self.link.connected().await?;
        let is_open = place.connection.as_ref().is_some_and(|connection| !connection.has_ended());
        if is_open && Weak::ptr_eq(&place.beside, &Arc::downgrade(&beside)) {
            return Ok((place, beside));
        }
        // On a task of its own: where the caller gives up during a slow login, the next one finds
        // it done.
        let link = Arc::clone(&self.link);
        let connecting = tokio::spawn(async move {
            let connection = Some(link.connect_another().await.map_err(no_outage)?);
            *place = Place { connection, beside: Arc::downgrade(&beside) };
            Ok((place, beside))
        });
        connecting.await.unwrap_or_else(|_| Err(StoreError::unavailable("connecting to Redis was cut short")))
    }

    /// Carries out all of these commands in one transaction on the link's own connection, and
    /// gives their replies.
    pub(super) async fn execute(&self, commands: Vec<Cmd>, asking: bool) -> Result<Vec<Value>, Failure> {
        let connection = self.link.connected().await.map_err(Failure::NotSent)?;
        let replies = send(&self.link, &connection, &connection, transaction(commands, asking)).await;
        executed(replies.map_err(|error| Failure::Lost(error.lost()))?)?
            .ok_or_else(|| Failure::Lost(unexpected_reply().lost()))
    }
}

/// A failure of a connection beside that of the link, such as of a server that has no room for
/// another one: whether it is an outage, the health of the link says.
fn no_outage(error: StoreError) -> StoreError {
    match error.kind() {
        StoreErrorKind::Unavailable => StoreError::timed_out(error.message().to_owned()),
        _ => error,
    }
}

/// A connection lent to a caller.
pub(super) struct Lent<'a> {
    link: &'a Link,
    place: OwnedMutexGuard<Place>,
    beside: Arc<Connection>,
    asking: bool,
    pauses: Backoff,
}

impl Lent<'_> {
    async fn send(&mut self, commands: Vec<Cmd>) -> Result<Vec<Value>, StoreError> {
        let closed = || StoreError::unavailable("the connection to Redis is closed");
        let connection = self.place.connection.take().ok_or_else(closed)?;
        let replies = send(self.link, &connection, &self.beside, commands).await;
        let replies = replies.map_err(no_outage)?;
        if !errors::first(&replies).is_some_and(errors::is_logged_out) {
            self.place.connection = Some(connection);
        }
        Ok(replies)
    }

    /// Watches a key, and gives the replies to commands that read.
    pub(super) async fn watch(&mut self, key: &[u8], reads: Vec<Cmd>) -> Result<Vec<Value>, Failure> {
        let ask = |command| self.asking.then(|| cmd("ASKING")).into_iter().chain([command]);
        let watch = [cmd("UNWATCH"), cmd("WATCH").arg(key).take()];
        let commands: Vec<Cmd> = watch.into_iter().chain(reads).flat_map(ask).collect();
        // Nothing is written yet, so nothing is lost.
        let replies = self.send(commands).await.map_err(Failure::NotSent)?;
        match errors::first(&replies) {
            Some(error) => Err(Failure::Server(error.clone())),
            None if self.asking => Ok(replies.into_iter().skip(1).step_by(2).skip(2).collect()),
            None => Ok(replies.into_iter().skip(2).collect()),
        }
    }

    /// Carries out all of these commands, and gives their replies. `None` if a watched key has
    /// changed: then none was carried out, and after a pause it is to be read again.
    ///
    /// Each time it fails, another transaction on the same key has succeeded. The caller's timeout
    /// ends it by dropping it.
    pub(super) async fn execute(&mut self, commands: Vec<Cmd>) -> Result<Option<Vec<Value>>, Failure> {
        let replies = self.send(transaction(commands, self.asking)).await;
        let executed = executed(replies.map_err(|error| Failure::Lost(error.lost()))?)?;
        if executed.is_none() {
            real_time::sleep(self.pauses.pause()).await;
        }
        Ok(executed)
    }
}

/// Sends all commands at once, and gives a reply to each. The link, whose own connection is `main`,
/// hears of an answer that does not come in time, and of a server that does not serve.
async fn send(
    link: &Link,
    connection: &Connection,
    main: &Connection,
    commands: Vec<Cmd>,
) -> Result<Vec<Value>, StoreError> {
    let mut pipeline = Pipeline::with_capacity(commands.len());
    for command in commands {
        pipeline.add_command(command);
    }
    main.note_use();
    let replies = main.awaited(link.timeout(), connection.send_all(&pipeline)).await;
    let replies = replies.map_err(|_| StoreError::unavailable("the connection to Redis was lost"))?;
    if let Some(error) = errors::first(&replies) {
        main.note(error);
    }
    Ok(replies)
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
