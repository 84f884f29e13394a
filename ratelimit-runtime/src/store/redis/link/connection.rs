//! [`Connection`]: one connection of the crate `redis`.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, ServerError, Value};
use tokio::task::AbortHandle;

use super::probe::{Probed, RoleQuestion, unwell};
use super::vitals::{Vitals, lock};
use crate::error::StoreError;
use crate::store::redis::errors;
use crate::store::redis::settings::server::Server;

/// A round trip of this many microseconds needs one more call in flight.
const PER_CALL: u32 = 250;
/// A runtime that has read nothing for this long may not know yet what has become of a connection.
const UNREAD: Duration = Duration::from_millis(5);

/// The connection ended before the reply came: the command may have run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lost;

/// A connection of the crate `redis`, logged in. When it is dropped, it ends.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(super) redis: MultiplexedConnection,
    /// A task of its own: see [`Vitals::watch`].
    pub(super) driver: AbortHandle,
    pub(super) server: Arc<Server>,
    pub(super) vitals: Arc<Vitals>,
    /// After this time the login expires.
    pub(super) renew_after: Option<Duration>,
    pub(super) role_question: Mutex<RoleQuestion>,
    /// How many calls have had a number.
    pub(super) numbers: AtomicU32,
    /// The shortest time between sending and reply, in microseconds, from the largest number on.
    pub(super) round_trip: AtomicU32,
}

impl Connection {
    /// The server that it leads to.
    pub(crate) fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// The number of the next call.
    pub(crate) fn number(&self) -> u32 {
        self.numbers(1)
    }

    /// The first number of so many calls.
    pub(crate) fn numbers(&self, calls: usize) -> u32 {
        self.numbers.fetch_add(u32::try_from(calls).unwrap_or(u32::MAX), Relaxed)
    }

    /// How many calls may be in flight: two, or what the round trip needs, at most 64.
    pub(crate) fn depth(&self) -> usize {
        let micros = Some(self.round_trip.load(Relaxed)).filter(|micros| *micros != u32::MAX);
        usize::try_from(micros.unwrap_or(0) / PER_CALL).unwrap_or_default().clamp(2, 64)
    }

    /// Whether nothing has been read for so long that the server may have hung up unnoticed.
    pub(crate) fn is_unread(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.vitals.last_byte()) > UNREAD
    }

    /// Notes that a call is made beside it, which relies on what the link knows of the server.
    pub(crate) fn note_use(&self) {
        self.vitals.used.store(true, Relaxed);
    }

    /// Sends one command. An error of the server is a value as any other.
    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, Lost> {
        self.note_use();
        let sent = Instant::now();
        let reply = self.redis.clone().send_packed_command(command).await.map_err(|_| Lost)?;
        self.note_answer(sent);
        Ok(reply)
    }

    /// Sends so many commands, and gives all replies.
    pub(crate) async fn send_all(&self, pipeline: &Pipeline, count: usize) -> Result<Vec<Value>, Lost> {
        self.note_use();
        self.ask(pipeline, count).await
    }

    /// The same for what the link asks for itself, which is no use of the connection.
    pub(super) async fn ask(&self, pipeline: &Pipeline, count: usize) -> Result<Vec<Value>, Lost> {
        let sent = Instant::now();
        let replies = self.redis.clone().send_packed_commands(pipeline, 0, count).await.map_err(|_| Lost)?;
        self.note_answer(sent);
        Ok(replies)
    }

    fn note_answer(&self, sent: Instant) {
        self.vitals.note_answer(sent);
        self.round_trip.fetch_min(u32::try_from(sent.elapsed().as_micros()).unwrap_or(u32::MAX), Relaxed);
    }

    /// A call that was sent at `sent` has waited for a timeout: the link is doubtful, unless
    /// something sent later was answered.
    pub(crate) fn late(&self, sent: Instant) {
        if !self.vitals.has_answered_since(sent) {
            self.vitals.tell(&self.vitals.doubted);
        }
    }

    /// Notes what an error in reply to a call says of the server. One that is busy or loading, or
    /// does not know the login any more, is doubtful: where it says the same to a PING, it is slow,
    /// or another connection logs in anew.
    pub(crate) fn note(&self, error: &ServerError) {
        if errors::is_replica(error) {
            self.vitals.tell(&self.vitals.is_replica);
        } else if errors::is_no_service(error) || errors::is_logged_out(error) {
            self.vitals.tell(&self.vitals.doubted);
        }
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.vitals.has_ended()
    }

    /// Ends it: what is on its way is lost. For replies that do not fit what was asked.
    pub(crate) fn hang_up(&self) {
        self.end(StoreError::unavailable("a reply of Redis does not fit its call: the connection was ended"));
    }

    /// Asks the server how it is. Waits for the answer, however long that takes.
    pub(super) async fn probe(&self) -> Result<Probed, Lost> {
        loop {
            let question = *lock(&self.role_question);
            let number = self.number().to_string();
            let mut pipeline = redis::pipe();
            pipeline.cmd("PING").arg(&number);
            if let Some(command) = question.command() {
                pipeline.add_command(command);
            }
            let replies = self.ask(&pipeline, pipeline.len()).await?;
            if let Some(unwell) = unwell(replies.first().unwrap_or(&Value::Nil), number.as_bytes()) {
                return Ok(unwell);
            }
            let Some(reply) = replies.get(1) else { return Ok(Probed::RoleUnknown) };
            if let Some(probed) = question.read(reply) {
                return Ok(probed);
            }
            *lock(&self.role_question) = question.next();
        }
    }

    pub(super) fn end(&self, cause: StoreError) {
        self.vitals.end(cause);
        self.driver.abort();
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Lets the runtime read first what has come, the end of a connection included. At the first return
/// it has looked at its sockets; at the second the drivers of connections have had their turn,
/// which come behind a caller that the runtime blocks on.
pub(crate) async fn look() {
    tokio::task::yield_now().await;
    tokio::task::yield_now().await;
}
