//! [`Link`]: the way to one Redis server. One multiplexed connection per tokio runtime, because a connection lives
//! and dies with the runtime that drives it.
//!
//! A call never connects. Each runtime has a [keeper](super::keeper), a task that connects, and connects again; calls
//! read the state it leaves:
//!
//! | state | a call |
//! | --- | --- |
//! | `Connecting` | waits; its deadline is the limiter's |
//! | `Up` | is sent |
//! | `Failed` | fails at once, with what made the last attempt fail, so that an outage costs nobody a deadline |

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{Client, Cmd, Pipeline, RedisError, ServerError, Value};
use tokio::runtime::{Handle, Id};
use tokio::sync::watch;

use super::pool::{Lease, Pool};
use super::{errors, keeper};
use crate::error::{StoreError, StoreErrorKind};

/// Calls in a row that end without a reply before the connection counts as dead.
const UNANSWERED: u32 = 3;
/// For how long nothing must have been heard as well: callers may give up in bursts for reasons of their own.
const SILENCE: Duration = Duration::from_millis(100);
/// How long [`Link::ready`] waits for one reply.
const PROBE: Duration = Duration::from_secs(1);
const PROBE_PAUSE: Duration = Duration::from_millis(50);

pub(super) struct Link {
    shared: Arc<Shared>,
}

/// What the keepers refer back to.
pub(super) struct Shared {
    pub(super) client: Client,
    slots: RwLock<Vec<(Id, Arc<Slot>)>>,
}

/// The connection of one runtime.
pub(super) struct Slot {
    pub(super) state: watch::Sender<State>,
    born: Instant,
    /// Milliseconds after `born` of the last call that found no connection.
    missed_ms: AtomicU64,
}

pub(super) enum State {
    Connecting,
    Up(Up),
    Failed(StoreError),
}

#[derive(Clone)]
pub(super) struct Up {
    pub(super) connection: MultiplexedConnection,
    pub(super) health: Arc<Health>,
}

/// What is known of one connection, and what goes with it. It also is the connection's identity.
pub(super) struct Health {
    pub(super) pool: Pool,
    since: Instant,
    unanswered: AtomicU32,
    /// When the first unanswered call was sent, in milliseconds after `since`.
    silent_since_ms: AtomicU64,
    /// Set when the connection ends by itself, which may be before it is announced.
    pub(super) closed: AtomicBool,
}

impl Link {
    pub(super) fn new(client: Client) -> Self {
        Self { shared: Arc::new(Shared { client, slots: RwLock::default() }) }
    }

    pub(super) fn client(&self) -> &Client {
        &self.shared.client
    }

    /// Sends one command. The outer error is the connection's, the inner one the server's reply.
    ///
    /// Dropping the future leaves nothing behind but the command, which may run.
    pub(super) async fn send(&self, command: &Cmd) -> Result<Result<Value, ServerError>, StoreError> {
        let slot = self.slot()?;
        let mut up = slot.up().await?;
        let reply = self.shared.hear(&slot, &up.health, up.connection.send_packed_command(command)).await?;
        match reply {
            Value::ServerError(error) => {
                slot.note(&up.health, &error);
                Ok(Err(error))
            }
            value => Ok(Ok(value)),
        }
    }

    /// Sends several commands at once, and gives their replies. Those of other callers may run in between, unless the
    /// commands are a MULTI … EXEC.
    ///
    /// # Errors
    ///
    /// Those of the connection, and the first that the server replies.
    pub(super) async fn send_all(&self, commands: &Pipeline) -> Result<Vec<Value>, StoreError> {
        let slot = self.slot()?;
        let mut up = slot.up().await?;
        let replies = up.connection.send_packed_commands(commands, 0, commands.len());
        let replies = self.shared.hear(&slot, &up.health, replies).await?;
        slot.first_error(&up.health, &replies).map_or(Ok(replies), Err)
    }

    /// A line to stand in, and the way to a connection of one's own.
    pub(super) async fn exclusive(&self) -> Result<Exclusive, StoreError> {
        let slot = self.slot()?;
        let health = slot.up().await?.health;
        Ok(Exclusive { shared: Arc::clone(&self.shared), slot, health })
    }

    /// Resolves once the server answers, or with what no waiting will cure.
    pub(super) async fn ready(&self) -> Result<(), StoreError> {
        loop {
            let slot = self.slot()?;
            slot.up_or_misconfigured().await?;
            let answer = match tokio::time::timeout(PROBE, self.send(&keeper::ping())).await {
                Ok(Ok(Ok(reply))) => keeper::serves(&reply),
                Ok(Ok(Err(reply))) => keeper::serves(&Value::ServerError(reply)),
                Ok(Err(error)) => Err(error),
                Err(_) => Err(StoreError::unavailable("Redis does not answer")),
            };
            match answer {
                Err(error) if error.kind() != StoreErrorKind::Misconfigured => {}
                answer => return answer,
            }
            tokio::time::sleep(PROBE_PAUSE).await;
        }
    }

    fn slot(&self) -> Result<Arc<Slot>, StoreError> {
        let Ok(runtime) = Handle::try_current() else {
            return Err(StoreError::misconfigured("the Redis store needs a tokio runtime: call it from within one"));
        };
        let id = runtime.id();
        let find = |slots: &[(Id, Arc<Slot>)]| slots.iter().find(|slot| slot.0 == id).map(|slot| Arc::clone(&slot.1));
        if let Some(slot) = find(&self.shared.slots.read().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(slot);
        }
        let slot = {
            let mut slots = self.shared.slots.write().unwrap_or_else(PoisonError::into_inner);
            if let Some(slot) = find(&slots) {
                return Ok(slot);
            }
            let slot = Arc::new(Slot::new());
            slots.push((id, Arc::clone(&slot)));
            slot
        };
        keeper::start(&runtime, &self.shared, &slot);
        Ok(slot)
    }
}

/// Where callers get a connection that nobody else uses.
pub(super) struct Exclusive {
    shared: Arc<Shared>,
    slot: Arc<Slot>,
    health: Arc<Health>,
}

impl Exclusive {
    pub(super) fn pool(&self) -> &Pool {
        &self.health.pool
    }

    pub(super) async fn lease(&self) -> Result<Lease, StoreError> {
        Lease::new(Arc::clone(&self.shared), Arc::clone(&self.slot), Arc::clone(&self.health)).await
    }
}

impl Shared {
    /// Waits for a reply, notes whether one comes, and gives the connection up if it is broken.
    pub(super) async fn hear<T>(
        &self,
        slot: &Slot,
        health: &Arc<Health>,
        reply: impl Future<Output = Result<T, RedisError>>,
    ) -> Result<T, StoreError> {
        let call = InFlight::new(slot, health);
        let reply = reply.await;
        call.answered();
        reply.map_err(|error| {
            slot.lose(health, State::Connecting);
            errors::from_client(error, &self.address())
        })
    }

    /// Host and port, or the path of the socket: nothing secret.
    pub(super) fn address(&self) -> String {
        self.client.get_connection_info().addr().to_string()
    }

    /// Takes a slot out; the next call of its runtime starts afresh.
    pub(super) fn forget(&self, slot: &Weak<Slot>) {
        let forgotten = {
            let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
            let index = slots.iter().position(|known| std::ptr::eq(Arc::as_ptr(&known.1), slot.as_ptr()));
            index.map(|index| slots.swap_remove(index))
        };
        // Dropping a connection runs foreign code: not under the lock.
        drop(forgotten);
    }
}

impl Slot {
    fn new() -> Self {
        Self { state: watch::Sender::new(State::Connecting), born: Instant::now(), missed_ms: AtomicU64::new(0) }
    }

    async fn up(&self) -> Result<Up, StoreError> {
        match &*self.state.borrow() {
            State::Up(up) => return Ok(up.clone()),
            State::Failed(error) => {
                self.missed_ms.store(millis_since(self.born), Ordering::Relaxed);
                return Err(error.clone());
            }
            State::Connecting => {}
        }
        self.settled(|state| !matches!(state, State::Connecting)).await
    }

    async fn up_or_misconfigured(&self) -> Result<Up, StoreError> {
        self.settled(|state| match state {
            State::Connecting => false,
            State::Up(_) => true,
            State::Failed(error) => error.kind() == StoreErrorKind::Misconfigured,
        })
        .await
    }

    async fn settled(&self, enough: impl Fn(&State) -> bool) -> Result<Up, StoreError> {
        let mut states = self.state.subscribe();
        match states.wait_for(enough).await.as_deref() {
            Ok(State::Up(up)) => Ok(up.clone()),
            Ok(State::Failed(error)) => Err(error.clone()),
            Ok(State::Connecting) | Err(_) => Err(StoreError::unavailable("the connection to Redis is closed")),
        }
    }

    /// What a server's error says about the connection.
    fn note(&self, health: &Arc<Health>, error: &ServerError) {
        if errors::code(error) == "READONLY" {
            // The name may lead to another server by now.
            self.lose(health, State::Failed(errors::from_server(error)));
        }
    }

    /// The first error among the replies, those of an EXEC included.
    pub(super) fn first_error(&self, health: &Arc<Health>, replies: &[Value]) -> Option<StoreError> {
        replies.iter().find_map(|reply| match reply {
            Value::ServerError(error) => {
                self.note(health, error);
                Some(errors::from_server(error))
            }
            Value::Array(replies) => self.first_error(health, replies),
            _ => None,
        })
    }

    /// Gives this connection up, unless that has happened already. The keeper makes the next one.
    pub(super) fn lose(&self, health: &Arc<Health>, next: State) {
        self.state.send_if_modified(|state| match state {
            State::Up(up) if Arc::ptr_eq(&up.health, health) => {
                *state = next;
                true
            }
            _ => false,
        });
    }

    /// Whether somebody wants a connection, or did within `span`.
    pub(super) fn is_wanted(&self, span: Duration) -> bool {
        // The keeper watches too; whoever else does is waiting.
        let missed = Duration::from_millis(self.missed_ms.load(Ordering::Relaxed));
        self.state.receiver_count() > 1 || self.born.elapsed().saturating_sub(missed) < span
    }

    /// Starts the time of [`is_wanted`](Self::is_wanted) anew.
    pub(super) fn want(&self) {
        self.missed_ms.store(millis_since(self.born), Ordering::Relaxed);
    }
}

impl Health {
    pub(super) fn new() -> Self {
        Self {
            pool: Pool::new(),
            since: Instant::now(),
            unanswered: AtomicU32::new(0),
            silent_since_ms: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        }
    }

    pub(super) fn age(&self) -> Duration {
        self.since.elapsed()
    }

    fn heard(&self) {
        // Read first: nobody else's cache line is taken in the ordinary case.
        if self.unanswered.load(Ordering::Relaxed) != 0 {
            self.unanswered.store(0, Ordering::Relaxed);
        }
    }

    /// Notes a call without a reply; says whether the connection counts as dead.
    fn unheard(&self, sent: Instant) -> bool {
        let earlier = self.unanswered.fetch_add(1, Ordering::Relaxed);
        let sent_ms = u64::try_from(sent.saturating_duration_since(self.since).as_millis()).unwrap_or(u64::MAX);
        if earlier == 0 {
            self.silent_since_ms.store(sent_ms, Ordering::Relaxed);
        }
        let silent_since = Duration::from_millis(self.silent_since_ms.load(Ordering::Relaxed));
        earlier + 1 >= UNANSWERED && self.age().saturating_sub(silent_since) >= SILENCE
    }
}

fn millis_since(then: Instant) -> u64 {
    u64::try_from(then.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Notices, by being dropped, that a caller stopped waiting. The client itself never gives up on a connection that
/// swallows everything.
pub(super) struct InFlight<'a> {
    slot: &'a Slot,
    health: &'a Arc<Health>,
    sent: Instant,
    answered: bool,
}

impl<'a> InFlight<'a> {
    pub(super) fn new(slot: &'a Slot, health: &'a Arc<Health>) -> Self {
        Self { slot, health, sent: Instant::now(), answered: false }
    }

    /// The wait is over, and says nothing about the server.
    pub(super) fn done(mut self) {
        self.answered = true;
    }

    fn answered(mut self) {
        self.answered = true;
        self.health.heard();
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if !self.answered && self.health.unheard(self.sent) {
            let error = StoreError::unavailable("Redis has stopped answering; reconnecting");
            self.slot.lose(self.health, State::Failed(error));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    fn slots(link: &Link) -> usize {
        link.shared.slots.read().unwrap().len()
    }

    #[test]
    fn slots_end_with_their_runtimes() {
        // Nobody listens there.
        let link = Link::new(Client::open("redis://127.0.0.1:1").unwrap());
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let lasting = runtime();
        assert!(lasting.block_on(link.send(&keeper::ping())).is_err());
        for _ in 0..10 {
            let passing = runtime();
            assert!(passing.block_on(link.send(&keeper::ping())).is_err());
            assert_eq!(slots(&link), 2);
        }
        assert_eq!(slots(&link), 1);
    }

    #[test]
    fn silence_counts_only_when_it_lasts() {
        let health = Health::new();
        let sent = Instant::now();
        for _ in 0..100 {
            assert!(!health.unheard(sent), "a burst is no silence");
        }
        std::thread::sleep(SILENCE);
        assert!(health.unheard(sent));
        health.heard();
        for _ in 1..UNANSWERED {
            assert!(!health.unheard(sent), "a reply in between starts the count anew");
        }
    }
}
