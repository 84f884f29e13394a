//! [`Lent`]: a connection for transactions, lent to one caller at a time: between `WATCH` and
//! `EXEC`, a connection cannot be shared.
//!
//! Callers of one key take turns: at the same time, they would only make each other's transactions
//! fail. Keys share connections, for each of which one caller of a key waits at a time. Connections
//! are opened at first use, beside the link's own. A caller that gives up before the reply closes
//! its connection. Each `WATCH` follows an `UNWATCH`, because a caller may have watched a key and
//! written nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Cmd, Value, cmd};
use tokio::sync::OwnedMutexGuard;

use super::key_turn::KeyTurn;
use crate::error::{StoreError, StoreErrorKind};
use crate::pace::{Backoff, SOCKETS_ARE_READ};
use crate::store::redis::batcher::Failure;
use crate::store::redis::cluster::slot_of;
use crate::store::redis::errors::{self, unexpected_reply};
use crate::store::redis::link::{Connection, Link, Lost, log_in};

/// The pauses after a transaction that failed because the key had changed.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(32));

/// Turns an outage into a timeout: a lent connection may fail while the server serves, such as at
/// `maxclients`. Only the link's own connection shows an outage.
fn no_outage(error: StoreError) -> StoreError {
    match error.kind() {
        StoreErrorKind::Unavailable => StoreError::timed_out(error.message().to_owned()),
        _ => error,
    }
}

/// A connection lent to a caller, and the link's own one beside which it was opened.
type Loan = (OwnedMutexGuard<Option<Connection>>, Arc<Connection>);

/// Waits for the connection that serves this key, and opens it if it is closed.
async fn lend(link: &Link, key: &[u8]) -> Result<Loan, Failure> {
    loop {
        let main = link.connected().await?;
        let mut own = main.beside(slot_of(key)).lock_owned().await;
        // The driver sees here that the server has closed an idle connection.
        SOCKETS_ARE_READ.pass().await;
        if main.has_ended() {
            continue;
        }
        if own.as_ref().is_some_and(|own| !own.has_ended()) {
            return Ok((own, main));
        }
        // On a task of its own: if the caller gives up during a slow login, the next caller finds
        // the connection open.
        let connecting = tokio::spawn(async move {
            *own = Some(log_in(&main.server).await.map_err(no_outage)?);
            Ok((own, main))
        });
        let cut_short = |_| Err(StoreError::unavailable("connecting to Redis was cut short"));
        return Ok(connecting.await.unwrap_or_else(cut_short)?);
    }
}

/// A connection that is lent to a caller for each of its transactions, one after the other.
pub(super) struct Lent<'a> {
    link: &'a Link,
    key: &'a [u8],
    // Given back before the turn, to callers of other keys.
    loan: Option<Loan>,
    _turn: KeyTurn,
    asking: bool,
    pauses: Backoff,
}

impl<'a> Lent<'a> {
    /// Waits for the turn of this key. `asking` puts `ASKING` before each command.
    pub(super) async fn by(link: &'a Link, key: &'a [u8], asking: bool) -> Result<Self, Failure> {
        let main = link.connected().await?;
        Ok(Self {
            link,
            key,
            loan: None,
            _turn: KeyTurn::of(&main.turns, key).await,
            asking,
            pauses: PAUSES,
        })
    }

    /// Sends commands, each behind an `ASKING` or not, and returns a reply to each. Late replies,
    /// and errors that concern the server, are reported to the link by its own connection.
    async fn send(&mut self, commands: Vec<Cmd>, asking: bool) -> Result<Vec<Value>, StoreError> {
        let closed = || StoreError::unavailable("the connection to Redis is closed");
        let (own, main) = self.loan.as_mut().ok_or_else(closed)?;
        let connection = own.take().ok_or_else(closed)?;
        main.note_use();
        let replies = connection.send_all(commands, asking);
        let replies = main
            .awaited(Instant::now(), self.link.timeout() / 2, replies)
            .await;
        let replies =
            replies.map_err(|Lost| StoreError::timed_out("the connection to Redis was lost"))?;
        let error = errors::first(&replies);
        if let Some(error) = error {
            main.note(error);
        }
        // Without EXEC, it stays inside MULTI.
        let is_over = |error| errors::is_logged_out(error) || errors::is_forbidden(error);
        if !error.is_some_and(is_over) {
            **own = Some(connection);
        }
        Ok(replies)
    }

    /// Waits for a connection, if the caller has none.
    pub(super) async fn connect(&mut self) -> Result<(), Failure> {
        if self.loan.is_none() {
            self.loan = Some(lend(self.link, self.key).await?);
        }
        Ok(())
    }

    /// Watches the key on the connection, and returns the replies to `reads`.
    pub(super) async fn watch(&mut self, reads: Vec<Cmd>) -> Result<Vec<Value>, Failure> {
        let watch = [cmd("UNWATCH"), cmd("WATCH").arg(self.key).take()];
        let commands = watch.into_iter().chain(reads).collect();
        // Nothing is written yet, so nothing is lost.
        let replies = self.send(commands, self.asking).await?;
        match errors::first(&replies) {
            Some(error) => Err(Failure::Server(error.clone())),
            None => Ok(replies.into_iter().skip(2).collect()),
        }
    }

    /// Executes commands in one transaction, and returns their replies. `None`, after a pause, if
    /// the watched key has changed: then no command was executed, and the key must be read again.
    ///
    /// Each failure means that another transaction on the key has succeeded. The number of attempts
    /// is bounded by the caller's timeout, which drops the future.
    pub(super) async fn execute(
        &mut self,
        commands: Vec<Cmd>,
    ) -> Result<Option<Vec<Value>>, Failure> {
        let replies = self.send(transaction(commands, self.asking), false).await;
        let executed = executed(replies.map_err(StoreError::lost)?)?;
        if executed.is_none() {
            // Callers of other keys have it meanwhile.
            self.loan = None;
            tokio::time::sleep(self.pauses.pause()).await;
        }
        Ok(executed)
    }
}

/// The commands between `MULTI` and `EXEC`. One `ASKING` holds for the whole transaction.
pub(super) fn transaction(commands: Vec<Cmd>, asking: bool) -> Vec<Cmd> {
    let begin = asking
        .then(|| cmd("ASKING"))
        .into_iter()
        .chain([cmd("MULTI")]);
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
        _ => Err(unexpected_reply().lost().into()),
    }
}
